"""Which member of a group reads which partition, worked out by the leader of a group of the classic protocol.

Every partition of a topic that somebody subscribes to goes to exactly one of its subscribers, but for one case: what the
cooperative assignor moves goes to nobody in this round, so that its old owner gives it up before the new one gets it.
Members with an instance id come first, so that they keep their place over restarts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain

from oncelog.client.groups.subscription import MemberSubscription
from oncelog.client.values import TopicPartition

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
    """All partitions of all topics, dealt to the members in turn; who does not subscribe is passed over."""
    given: dict[str, set[TopicPartition]] = {member: set() for member in members}
    order = _in_order(members)
    turn = 0
    for partition in _partitions(members, counts):
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


def _partitions(members: Members, counts: Counts) -> list[TopicPartition]:
    wanted = {topic for subscription in members.values() for topic in subscription.topics}
    return [
        TopicPartition(topic, number) for topic in sorted(wanted & counts.keys()) for number in range(counts[topic])
    ]


def _owners(members: Members, counts: Counts) -> dict[TopicPartition, str]:
    """Who holds what. Of several who claim a partition, the one of the newest generation does; of two of those, nobody."""
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
    for partition in _partitions(members, counts):
        if partition in owners:
            balance.give(owners[partition], partition)
        else:
            homeless.append(partition)
    # Those that few can take first: later there might be nobody left who has room.
    for partition in sorted(homeless, key=lambda item: (len(readers[item.topic]), item)):
        balance.give(balance.least_loaded(readers[partition.topic]), partition)
    while balance.move_one():
        pass
    return balance.given


class _Balance:
    """Who has what, each member's partitions by who else could read them; what came last is moved first."""

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
