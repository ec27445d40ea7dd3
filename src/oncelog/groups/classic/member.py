"""A member of a group of the classic protocol, its requests and the answers to them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol, Self

from oncelog.coordination import Promise
from oncelog.coordination.fields import FieldReader
from oncelog.groups.classic.metadata import StoredMember
from oncelog.wire import ErrorCode, WireError

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
    """A member, as the leader's JoinGroup answer names it."""

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


Protocols = tuple[tuple[str, bytes], ...]
"""The protocols a member can do, the one it likes best first: the name, and what it has to say for it."""


class WaitsForJoin(NamedTuple):
    """It has joined, and is told so when the generation begins."""

    reply: Promise[JoinAnswer]


class WaitsForSync(NamedTuple):
    """It has asked for its assignment, which the leader has not sent yet."""

    reply: Promise[SyncAnswer]


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

    def renew_session(self, steady_ms: float) -> ClassicGroupMember:
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


CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """The topics of a consumer's subscription, or None where the bytes are no such thing.

    int16 version, int32 count, string topics; what follows depends on the version and is left alone.
    """
    reader = FieldReader(subscription)
    try:
        reader.int16()
        return frozenset(reader.string() for _ in range(reader.int32()))
    except WireError:
        return None
