"""Who a request for offsets says it comes from."""

from __future__ import annotations

from typing import NamedTuple

NO_GENERATION = -1
MEMBER_EPOCH_VERSION = 9
"""The first version of OffsetCommit whose generation may be a member epoch (KIP-848)."""


class CommitContext(NamedTuple):
    """`generation` is the member epoch of newer groups, `version` that of OffsetCommit."""

    member_id: str = ""
    generation: int = NO_GENERATION
    instance_id: str | None = None
    version: int = MEMBER_EPOCH_VERSION

    @property
    def is_nobody(self) -> bool:
        return self.generation == NO_GENERATION and not self.member_id and self.instance_id is None


ANYONE = CommitContext()
