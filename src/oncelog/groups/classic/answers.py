"""What members ask of a group of the classic protocol, and what they are answered."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol, Self

from oncelog.wire import ErrorCode

NO_GENERATION = -1
NO_MEMBER_ID = ""
NO_LEADER = ""


class GroupAnswer(Protocol):
    def with_error(self, error: ErrorCode) -> Self:
        """The same answer, where nothing of what was decided could be recorded."""


class JoinRequest(NamedTuple):
    """JoinGroup. `needs_member_id` is how KIP-394 joins (v4), `may_skip_assignment` that of KIP-814 (v9)."""

    group: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    needs_member_id: bool = True
    may_skip_assignment: bool = True


class JoinedMember(NamedTuple):
    """What the leader is told of each member."""

    member_id: str
    instance_id: str | None
    subscription: bytes


class JoinAnswer(NamedTuple):
    error: ErrorCode = ErrorCode.none
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_LEADER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()

    def with_error(self, error: ErrorCode) -> Self:
        return self._replace(error=error)


class SyncRequest(NamedTuple):
    """SyncGroup. The protocol's type and name are None in versions that do not have them (before v5)."""

    group: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = MappingProxyType({})


class SyncAnswer(NamedTuple):
    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""

    def with_error(self, error: ErrorCode) -> Self:
        return self._replace(error=error)


class Leaving(NamedTuple):
    """One member that leaves, or is made to: by its id, or by its instance id alone."""

    member_id: str
    instance_id: str | None = None


class LeaveAnswer(NamedTuple):
    """One error for each that was named, in their order."""

    errors: tuple[ErrorCode, ...] = ()
    error: ErrorCode = ErrorCode.none

    def with_error(self, error: ErrorCode) -> Self:
        return self._replace(error=error)
