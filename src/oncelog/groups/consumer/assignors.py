"""The assignors of the coordinator (KIP-848): they divide the partitions of the subscribed topics among the members.

"uniform" gives every member as many partitions as any other, and moves as few as it can. "range" gives each member neighbouring
partitions, and the same ones of every topic where topics are of one size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from types import MappingProxyType
from uuid import UUID

from oncelog.groups.consumer.assignment import Assignment, Partition

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
    return {member.member_id: shares.assignment_of(member) for member in members}


TOPIC_SHIFT, INDEX_MASK = 32, 2**32 - 1


class _Shares:
    """The partitions of each member while they are being assigned. Each member begins with those that it had and still
    may have.

    A partition is a number here, its topic's place among the ids in the upper part and its index in the lower one: sets
    of ten thousand numbers are quick, and a topic's id takes longer to hash than all the rest.
    """

    def __init__(self, members: Sequence[Candidate], sizes: Sizes) -> None:
        self._ids = sorted(set().union(*(member.topics for member in members)), key=lambda topic_id: topic_id.int)
        self._sizes = [sizes[topic_id] for topic_id in self._ids]
        places = {topic_id: place for place, topic_id in enumerate(self._ids)}
        self.owned: dict[str, set[int]] = {}
        self._had: dict[str, dict[int, Partition]] = {}
        self._subscribers: dict[int, list[str]] = {}
        taken: set[int] = set()
        for member in sorted(members, key=lambda member: member.member_id):
            subscribed = sorted(places[topic_id] for topic_id in member.topics)
            had = self._had[member.member_id] = self._numbered(member.current, subscribed)
            kept = had.keys() - taken
            taken |= kept
            self.owned[member.member_id] = kept
            for place in subscribed:
                self._subscribers.setdefault(place, []).append(member.member_id)

    def assignment_of(self, member: Candidate) -> Assignment:
        """Made of what the member has had, as far as it stays."""
        owned, had = self.owned[member.member_id], self._had[member.member_id]
        stays = member.current if len(had) == len(member.current) else frozenset(had.values())
        gone = [had[number] for number in had.keys() - owned]
        new = [(self._ids[number >> TOPIC_SHIFT], number & INDEX_MASK) for number in owned - had.keys()]
        return stays.difference(gone).union(new) if gone or new else stays

    def cut_to_equal_size(self) -> None:
        """Take from each member what is beyond its share; those who have most may keep one more."""
        total = sum(self._sizes[place] for place in self._subscribers)
        share, more = divmod(total, len(self.owned))
        by_size = sorted(self.owned, key=lambda member_id: -len(self.owned[member_id]))
        for place, member_id in enumerate(by_size):
            owned = self.owned[member_id]
            too_many = len(owned) - share - (place < more)
            if too_many > 0:
                owned.difference_update(sorted(owned, reverse=True)[:too_many])

    def hand_out(self) -> None:
        """Give what nobody has to who has least, the topics first of which a subscriber gets most."""
        taken: set[int] = set().union(*self.owned.values())
        for place in self._topics_in_order():
            first = place << TOPIC_SHIFT
            free = [number for number in range(first, first + self._sizes[place]) if number not in taken]
            if not free:
                continue
            by_size = [(len(self.owned[member_id]), member_id) for member_id in self._subscribers[place]]
            largest, _ = max(by_size)
            heapify(by_size)
            given = 0
            while given < len(free) and by_size[0][0] < largest:
                size, member_id = by_size[0]
                self.owned[member_id].add(free[given])
                heapreplace(by_size, (size + 1, member_id))
                given += 1
            # From here on all have the same, and it is their turn in their order, again and again.
            count = len(by_size)
            for turn, member_id in enumerate(sorted(member_id for _, member_id in by_size)):
                self.owned[member_id].update(free[given + turn :: count])

    def balance(self) -> None:
        """Move partitions from who has most to who has least, as long as that makes them more equal."""
        for _ in range(PASSES_MAX):
            moved = [self._balance_topic(place) for place in self._topics_in_order()]
            if not any(moved):
                return

    def _balance_topic(self, place: int) -> int:
        """The number of partitions of a topic that were moved."""
        moved = 0
        givers = list(self._subscribers[place])
        while givers:
            most = max(givers, key=lambda member_id: len(self.owned[member_id]))
            least = min(self._subscribers[place], key=lambda member_id: len(self.owned[member_id]))
            if len(self.owned[most]) - len(self.owned[least]) <= 1:
                return moved
            number = max((one for one in self.owned[most] if one >> TOPIC_SHIFT == place), default=None)
            if number is None:
                givers.remove(most)
                continue
            self.owned[most].remove(number)
            self.owned[least].add(number)
            moved += 1
        return moved

    def _topics_in_order(self) -> list[int]:
        def order(place: int) -> tuple[float, int, int]:
            count = len(self._subscribers[place])
            return -self._sizes[place] / count, count, place

        return sorted(self._subscribers, key=order)

    def _numbered(self, current: Assignment, subscribed: Sequence[int]) -> dict[int, Partition]:
        """The partitions that exist and whose topics are subscribed to, by their numbers."""
        known = {self._ids[place].int: (place << TOPIC_SHIFT, self._sizes[place]) for place in subscribed}
        found = {}
        for one in current:
            place = known.get(one[0].int)
            if place is not None and one[1] < place[1]:
                found[place[0] | one[1]] = one
        return found


ASSIGNORS: Mapping[str, Assignor] = MappingProxyType({"uniform": assign_uniform, "range": assign_range})
"""Under the names that members ask for."""
