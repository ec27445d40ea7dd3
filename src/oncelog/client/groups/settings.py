"""The settings of a member of a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from oncelog.client.groups.assignors import ASSIGNORS
from oncelog.client.values import TopicPartition

SESSION_TIMEOUT_MS = 45_000
HEARTBEAT_INTERVAL_MS = 3_000
ASSIGNOR_NAMES = ("range", "cooperative-sticky")

OnPartitions = Callable[[frozenset[TopicPartition]], object]


class GroupProtocol(Enum):
    """The protocol of a group: the members assign (classic), or the broker does (consumer, KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """A member of a group. The names are Kafka's; what is only for one of the protocols says so."""

    group_id: str
    group_instance_id: str | None = None
    protocol: GroupProtocol = GroupProtocol.CLASSIC
    max_poll_interval_ms: int = 300_000
    metadata_max_age_ms: int = 300_000
    exclude_internal_topics: bool = True
    session_timeout_ms: int = SESSION_TIMEOUT_MS  # classic
    heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS  # classic
    assignors: tuple[str, ...] = ASSIGNOR_NAMES  # classic
    group_remote_assignor: str | None = None  # consumer


def group_settings(
    group_id: str,
    *,
    group_instance_id: str | None,
    group_protocol: str,
    max_poll_interval_ms: int,
    metadata_max_age_ms: int,
    exclude_internal_topics: bool = True,
    group_remote_assignor: str | None,
    **classic: Any,
) -> GroupSettings:
    """Settings as a user gives them. `classic` are those of the classic protocol; None stands for the default.

    Raises ValueError for a name that is none, and for a setting that means nothing under the protocol.
    """
    protocols = [protocol.value for protocol in GroupProtocol]
    if group_protocol not in protocols:
        raise ValueError(f"group_protocol is {group_protocol!r}: {' or '.join(protocols)} is allowed")
    protocol = GroupProtocol(group_protocol)
    chosen = {name: value for name, value in classic.items() if value is not None}
    if protocol is GroupProtocol.CONSUMER and chosen:
        raise ValueError(f"{', '.join(chosen)} is the broker's to choose where group_protocol is 'consumer'")
    if protocol is GroupProtocol.CLASSIC and group_remote_assignor is not None:
        raise ValueError("group_remote_assignor is for group_protocol 'consumer'")
    if "assignors" in chosen:
        chosen["assignors"] = tuple(chosen["assignors"])
        unknown = [name for name in chosen["assignors"] if name not in ASSIGNORS]
        if unknown or not chosen["assignors"]:
            raise ValueError(f"assignors are {unknown}: some of {', '.join(ASSIGNORS)} are allowed")
    return GroupSettings(
        group_id,
        group_instance_id=group_instance_id,
        protocol=protocol,
        max_poll_interval_ms=max_poll_interval_ms,
        metadata_max_age_ms=metadata_max_age_ms,
        exclude_internal_topics=exclude_internal_topics,
        group_remote_assignor=group_remote_assignor,
        **chosen,
    )


@dataclass(frozen=True, slots=True)
class Callbacks:
    """The user's code around a rebalance. Each gets the partitions it is about, and is called from `poll` or `close`."""

    on_assigned: OnPartitions | None = None
    on_revoked: OnPartitions | None = None
    on_lost: OnPartitions | None = None

    def given(self, partitions: frozenset[TopicPartition]) -> Callable[[], object] | None:
        return None if self.on_assigned is None else _bound(self.on_assigned, partitions)

    def taken(self, partitions: frozenset[TopicPartition]) -> Callable[[], object] | None:
        return None if self.on_revoked is None else _bound(self.on_revoked, partitions)

    def lost(self, partitions: frozenset[TopicPartition]) -> Callable[[], object] | None:
        """The callback for lost partitions: `on_revoked` where there is no `on_lost`."""
        callback = self.on_lost or self.on_revoked
        return None if callback is None else _bound(callback, partitions)


def _bound(function: OnPartitions, partitions: frozenset[TopicPartition]) -> Callable[[], object]:
    return lambda: function(partitions)
