"""What brokers say of groups to somebody who is no member of them."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.client.values import Address, TopicPartition

CLASSIC, CONSUMER = "classic", "consumer"
"""The types of groups that are described here: that of the classic protocol, and that of KIP-848."""
EMPTY, DEAD = "Empty", "Dead"
"""The states of a group without members, and of one that is not there."""


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list. Brokers that know no types or states leave them empty."""

    group: str
    type: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member, and the partitions that it has; in a group of KIP-848 also its epoch, and what it is to have.

    A member whose assignment is no assignment of Kafka's consumer protocol has no partitions here.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: frozenset[TopicPartition]
    epoch: int | None = None
    target_assignment: frozenset[TopicPartition] | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group; the epochs are those of KIP-848."""

    group: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Address
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None
