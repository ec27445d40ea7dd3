"""The assignors of the coordinator (KIP-848): which member is to have which partitions of the topics it is subscribed to.

"uniform" gives every member as many partitions as any other, and leaves with each what it has as far as that goes;
"range" gives each member neighbouring partitions, and the same ones of every topic where topics are of one size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace, nlargest
from types import MappingProxyType
from uuid import UUID

from oncelog.groups.consumer.assignment import Assignment, Partition, place_of

PASSES_MAX = 16
"""How often members of different subscriptions are compared, at most."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A member to assign to: the topics it is subscribed to, all of which are there, and its target so far."""

    member_id: str
    instance_id: str | None
    topics: frozenset[UUID]
    current: Assignment


Sizes = Mapping[UUID, int]
"""How many partitions each topic has."""

Assignor = Callable[[Sequence[Candidate], Sizes], dict[str, Assignment]]


def assign_range(members: Sequence[Candidate], sizes: Sizes) -> dict[str, Assignment]:
    assigned: dict[str, set[Partition]] = {member.member_id: set() for member in members}
    in_order = sorted(members, key=_range_order)
    topic_ids: set[UUID] = set().union(*(member.topics for member in members))
    for topic_id in topic_ids:
        subscribers = [member for member in in_order if topic_id in member.topics]
        share, more = divmod(sizes[topic_id], len(subscribers))
        first = 0
        for place, member in enumerate(subscribers):
            end = first + share + (place < more)
            assigned[member.member_id].update((topic_id, index) for index in range(first, end))
            first = end
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}


def _range_order(member: Candidate) -> tuple[bool, str]:
    """Static members first, by what does not change when they are started again."""
    return member.instance_id is None, member.instance_id or member.member_id


def assign_uniform(members: Sequence[Candidate], sizes: Sizes) -> dict[str, Assignment]:
    shares = _Shares(members, sizes)
    if all(member.topics == members[0].topics for member in members):
        shares.cut_to_equal_size()
    shares.hand_out()
    shares.balance()
    return {member_id: frozenset(owned) for member_id, owned in shares.owned.items()}


class _Shares:
    """What each member has while it is worked out. It begins with what it has had, if that is still there for it."""

    def __init__(self, members: Sequence[Candidate], sizes: Sizes) -> None:
        self._sizes = sizes
        self.owned: dict[str, set[Partition]] = {}
        self._subscribers: dict[UUID, list[str]] = {}
        taken: set[Partition] = set()
        for member in sorted(members, key=lambda member: member.member_id):
            kept = {one for one in member.current if one[0] in member.topics and one[1] < sizes[one[0]]} - taken
            taken |= kept
            self.owned[member.member_id] = kept
            for topic_id in member.topics:
                self._subscribers.setdefault(topic_id, []).append(member.member_id)

    def cut_to_equal_size(self) -> None:
        """Take from each member what is beyond its share; those who have most may keep one more."""
        total = sum(self._sizes[topic_id] for topic_id in self._subscribers)
        share, more = divmod(total, len(self.owned))
        by_size = sorted(self.owned, key=lambda member_id: -len(self.owned[member_id]))
        for place, member_id in enumerate(by_size):
            owned = self.owned[member_id]
            too_many = len(owned) - share - (place < more)
            if too_many > 0:
                last = nlargest(too_many, owned, key=place_of)
                owned.difference_update(last)

    def hand_out(self) -> None:
        """Give what nobody has to who has least, the topics first of which a subscriber gets most."""
        taken: set[Partition] = set().union(*self.owned.values())
        for topic_id in self._topics_in_order():
            by_size = [(len(self.owned[member_id]), member_id) for member_id in self._subscribers[topic_id]]
            heapify(by_size)
            for index in range(self._sizes[topic_id]):
                if (topic_id, index) not in taken:
                    size, member_id = by_size[0]
                    self.owned[member_id].add((topic_id, index))
                    heapreplace(by_size, (size + 1, member_id))

    def balance(self) -> None:
        """Move partitions from who has most to who has least, as long as that makes them more equal."""
        for _ in range(PASSES_MAX):
            moved = [self._balance_topic(topic_id) for topic_id in self._topics_in_order()]
            if not any(moved):
                return

    def _balance_topic(self, topic_id: UUID) -> int:
        """How many partitions of a topic were moved."""
        moved = 0
        givers = list(self._subscribers[topic_id])
        while givers:
            most = max(givers, key=lambda member_id: len(self.owned[member_id]))
            least = min(self._subscribers[topic_id], key=lambda member_id: len(self.owned[member_id]))
            if len(self.owned[most]) - len(self.owned[least]) <= 1:
                return moved
            partition = max((one for one in self.owned[most] if one[0] == topic_id), key=place_of, default=None)
            if partition is None:
                givers.remove(most)
                continue
            self.owned[most].remove(partition)
            self.owned[least].add(partition)
            moved += 1
        return moved

    def _topics_in_order(self) -> list[UUID]:
        def order(topic_id: UUID) -> tuple[float, int, int]:
            count = len(self._subscribers[topic_id])
            return -self._sizes[topic_id] / count, count, topic_id.int

        return sorted(self._subscribers, key=order)


ASSIGNORS: Mapping[str, Assignor] = MappingProxyType({"uniform": assign_uniform, "range": assign_range})
"""Under the names that members ask for."""
