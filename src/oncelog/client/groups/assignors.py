"""Assignors: the leader of a group of the classic protocol assigns partitions to members with one of them.

Every partition of a topic that somebody subscribes to goes to exactly one of its subscribers, but for one case: what the
cooperative assignor moves goes to nobody in this round, so that its old owner gives it up before the new one gets it.
Members with an instance id come first, so that they keep their place over restarts.

Members send one another their subscriptions and assignments through the broker. Both begin with an int16 version. A reader
takes what it knows and leaves the rest: newer versions only add at the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

from typing_extensions import Buffer

from oncelog.client.net.leaders import by_topic
from oncelog.client.values import TopicPartition
from oncelog.wire import WireError, decode, encode, load_module

PROTOCOL_TYPE = "consumer"
VERSION_MAX = 3
GENERATION_VERSION = 2


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """The topics that a member subscribes to, and the partitions that it held in the generation it names."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation_id: int = -1
    group_instance_id: str | None = None


def encode_subscription(subscription: MemberSubscription) -> bytes:
    kind = _message("subscription", VERSION_MAX)
    return _encode(
        kind.ConsumerProtocolSubscription(
            topics=tuple(sorted(subscription.topics)),
            user_data=None,
            owned_partitions=_topics(kind, subscription.owned),
            generation_id=subscription.generation_id,
            rack_id=None,
        )
    )


def decode_subscription(data: Buffer, group_instance_id: str | None) -> MemberSubscription:
    """Raises WireError for bytes that are no subscription."""
    message = _decode("subscription", data)
    return MemberSubscription(
        topics=frozenset(message.topics),
        owned=_partitions(getattr(message, "owned_partitions", ())),
        generation_id=int(getattr(message, "generation_id", -1)),
        group_instance_id=group_instance_id,
    )


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    kind = _message("assignment", VERSION_MAX)
    return _encode(
        kind.ConsumerProtocolAssignment(assigned_partitions=_topics(kind, partitions), user_data=None),
    )


def decode_assignment(data: Buffer) -> frozenset[TopicPartition]:
    """The partitions of an assignment; none for a member that was given no bytes. Raises WireError."""
    if not len(memoryview(data)):
        return frozenset()
    return _partitions(_decode("assignment", data).assigned_partitions)


@cache
def _message(name: str, version: int) -> Any:
    return load_module(f"kio.schema.consumer_protocol_{name}.v{version}.data")


def _encode(message: Any) -> bytes:
    version = int(type(message).__version__)
    return version.to_bytes(2, "big") + b"".join(bytes(chunk) for chunk in encode(message))


def _decode(name: str, data: Buffer) -> Any:
    version = int.from_bytes(memoryview(data)[:2], "big", signed=True)
    if version < 0:
        raise WireError(f"a consumer's {name} of version {version}")
    kind = getattr(_message(name, min(version, VERSION_MAX)), f"ConsumerProtocol{name.capitalize()}")
    return decode(kind, data, 2)[0]


def _topics(kind: Any, partitions: Iterable[TopicPartition]) -> tuple[Any, ...]:
    return tuple(
        kind.TopicPartition(topic=topic, partitions=tuple(item.partition for item in items))
        for topic, items in by_topic(partitions).items()
    )


def _partitions(topics: Iterable[Any]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(str(topic.topic), int(number)) for topic in topics for number in topic.partitions)


Members = Mapping[str, MemberSubscription]
Counts = Mapping[str, int]
Assignment = dict[str, frozenset[TopicPartition]]
Assignor = Callable[[Members, Counts], Assignment]


def assign_ranges(members: Members, counts: Counts) -> Assignment:
    """Each topic by itself: consecutive partitions to members in order, the first ones one more where it does not divide.

    Topics with as many partitions are divided alike, so that a member gets the partitions that belong together.
    """
    given: dict[str, set[TopicPartition]] = {member: set() for member in members}
    for topic, count in counts.items():
        readers = [member for member in _in_order(members) if topic in members[member].topics]
        start = 0
        for place, member in enumerate(readers):
            share = count // len(readers) + (place < count % len(readers))
            given[member].update(TopicPartition(topic, number) for number in range(start, start + share))
            start += share
    return _frozen(given)


def assign_round_robin(members: Members, counts: Counts) -> Assignment:
    """All partitions of all topics, dealt to the members in turn, except to members that do not subscribe."""
    given: dict[str, set[TopicPartition]] = {member: set() for member in members}
    order = _in_order(members)
    turn = 0
    for partition in _all_partitions(members, counts):
        while partition.topic not in members[order[turn % len(order)]].topics:
            turn += 1
        given[order[turn % len(order)]].add(partition)
        turn += 1
    return _frozen(given)


def assign_cooperatively(members: Members, counts: Counts) -> Assignment:
    """Balanced, with as few moves as that takes; what moves from one member to another goes to nobody yet (KIP-429)."""
    owners = _owners(members, counts)
    balanced = _balanced(members, counts, owners)
    return {
        member: frozenset(item for item in partitions if owners.get(item, member) == member)
        for member, partitions in balanced.items()
    }


ASSIGNORS: Mapping[str, Assignor] = {
    "range": assign_ranges,
    "roundrobin": assign_round_robin,
    "cooperative-sticky": assign_cooperatively,
}
COOPERATIVE = frozenset({"cooperative-sticky"})
"""The assignors under which a member keeps what it has while the group rebalances."""


def _in_order(members: Members) -> list[str]:
    def place(member: str) -> tuple[bool, str]:
        instance_id = members[member].group_instance_id
        return instance_id is None, instance_id or member

    return sorted(members, key=place)


def _all_partitions(members: Members, counts: Counts) -> list[TopicPartition]:
    wanted = {topic for subscription in members.values() for topic in subscription.topics}
    return [
        TopicPartition(topic, number) for topic in sorted(wanted & counts.keys()) for number in range(counts[topic])
    ]


def _owners(members: Members, counts: Counts) -> dict[TopicPartition, str]:
    """The owner of each partition. The newest generation decides between claims; two claims of one generation cancel each other."""
    claims: dict[TopicPartition, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for member, subscription in members.items():
        for partition in subscription.owned:
            is_there = partition.partition < counts.get(partition.topic, 0)
            if is_there and partition.topic in subscription.topics:
                claims[partition][subscription.generation_id].append(member)
    newest = {partition: generations[max(generations)] for partition, generations in claims.items()}
    return {partition: claimants[0] for partition, claimants in newest.items() if len(claimants) == 1}


def _balanced(
    members: Members, counts: Counts, owners: Mapping[TopicPartition, str]
) -> Mapping[str, set[TopicPartition]]:
    order = _in_order(members)
    readers = {topic: tuple(member for member in order if topic in members[member].topics) for topic in counts}
    balance = _Balance(order, readers)
    homeless: list[TopicPartition] = []
    for partition in _all_partitions(members, counts):
        if partition in owners:
            balance.give(owners[partition], partition)
        else:
            homeless.append(partition)
    # Partitions with few possible owners come first: later none of these might have room.
    for partition in sorted(homeless, key=lambda item: (len(readers[item.topic]), item)):
        balance.give(balance.least_loaded(readers[partition.topic]), partition)
    while balance.move_one():
        pass
    return balance.given


class _Balance:
    """The partitions of each member, by the members that could read them. The last one assigned is moved first."""

    def __init__(self, members: Iterable[str], readers: Mapping[str, tuple[str, ...]]) -> None:
        self._readers = readers
        self._stacks: dict[str, dict[tuple[str, ...], list[TopicPartition]]] = {member: {} for member in members}
        self._loads = dict.fromkeys(self._stacks, 0)

    @property
    def given(self) -> Mapping[str, set[TopicPartition]]:
        return {member: set(chain(*stacks.values())) for member, stacks in self._stacks.items()}

    def give(self, member: str, partition: TopicPartition) -> None:
        self._stacks[member].setdefault(self._readers[partition.topic], []).append(partition)
        self._loads[member] += 1

    def least_loaded(self, members: Iterable[str]) -> str:
        return min(members, key=self._loads.__getitem__)

    def move_one(self) -> bool:
        """Move a partition to a member that has at least two fewer; say whether there was one to move."""
        for giver in sorted(self._loads, key=lambda member: -self._loads[member]):
            for readers, stack in self._stacks[giver].items():
                taker = self.least_loaded(readers)
                if stack and self._loads[taker] < self._loads[giver] - 1:
                    self._loads[giver] -= 1
                    self.give(taker, stack.pop())
                    return True
        return False


def _frozen(given: Mapping[str, set[TopicPartition]]) -> Assignment:
    return {member: frozenset(partitions) for member, partitions in given.items()}
