"""A member of a group of the classic protocol, as it is known while the broker lives."""

from __future__ import annotations

from typing import NamedTuple

from oncelog.coordination import Parked
from oncelog.groups.classic.answers import JoinAnswer, SyncAnswer
from oncelog.groups.classic.metadata import StoredMember

Protocols = tuple[tuple[str, bytes], ...]
"""The protocols a member can do, the one it likes best first: the name, and what it has to say for it."""


class WaitsForJoin(NamedTuple):
    """It has joined, and is told so when the generation begins."""

    reply: Parked[JoinAnswer]


class WaitsForSync(NamedTuple):
    """It has asked for its assignment, which the leader has not sent yet."""

    reply: Parked[SyncAnswer]


class ClassicGroupMember(NamedTuple):
    """`session_deadline_ms` is a steady time; None while a request of the member that waits stands for its heartbeats.

    A value: its group has another in its place when it changes.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    waits: WaitsForJoin | WaitsForSync | None = None
    is_new: bool = False
    session_deadline_ms: float | None = None

    @classmethod
    def stored(cls, stored: StoredMember, protocol: str | None) -> ClassicGroupMember:
        """Only what it said for the protocol that was chosen is recorded: it can do no other until it joins again."""
        return cls(
            stored.member_id,
            stored.instance_id,
            stored.client_id,
            stored.client_host,
            stored.rebalance_timeout_ms,
            stored.session_timeout_ms,
            ((protocol or "", stored.subscription),),
            stored.assignment,
        )

    @property
    def has_joined(self) -> bool:
        return isinstance(self.waits, WaitsForJoin)

    def subscription(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def heard_from(self, steady_ms: float) -> ClassicGroupMember:
        return self._replace(session_deadline_ms=steady_ms + self.session_timeout_ms)

    def as_stored(self, protocol: str | None, assignment: bytes) -> StoredMember:
        return StoredMember(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.subscription(protocol),
            assignment,
        )
