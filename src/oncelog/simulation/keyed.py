"""A compacted topic. Each writer has keys of its own, which it sets, changes and deletes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from oncelog.client.consumer.core import ConsumedRecord
from oncelog.client.values import NewTopic, TopicPartition
from oncelog.simulation.broker_node import SimulationFailure
from oncelog.simulation.history import Outcome, WrittenTogether

KEYED = "keyed"
KEYED_PARTITIONS = 2
KEYS_OF_A_WRITER = 6
TOMBSTONE_SHARE = 0.25

KeyedRecords = Mapping[TopicPartition, Sequence[ConsumedRecord]]


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One key's value from here on; None deletes it."""

    value: bytes | None
    together: WrittenTogether

    @property
    def can_be_there(self) -> bool:
        return self.together.outcome is not Outcome.FAILED


@dataclass(slots=True)
class KeyedHistory:
    """The history of each key. `plain_is_durable` says whether acknowledged writes outside transactions survive a power
    cut.
    """

    plain_is_durable: bool
    changes: dict[tuple[TopicPartition, bytes], list[KeyChange]] = field(default_factory=dict)
    sightings: list[dict[TopicPartition, list[ConsumedRecord]]] = field(default_factory=list)

    def change(self, random: Random, together: WrittenTogether) -> tuple[TopicPartition, bytes, bytes | None]:
        """Draw what is written next, and remember it.

        Outside transactions a process has keys of its own: nothing fences it, and its bytes may come when the next has begun.
        """
        number = random.randrange(KEYS_OF_A_WRITER)
        partition = TopicPartition(KEYED, number % KEYED_PARTITIONS)
        owner = together.writer if together.is_transactional else f"{together.writer}.{together.process}"
        key = b"%s %d" % (owner.encode(), number)
        value = None
        if random.random() >= TOMBSTONE_SHARE:
            value = b"%016x" % random.getrandbits(64) + b"." * random.choice((0, 0, 100, 2_000))
        self.changes.setdefault((partition, key), []).append(KeyChange(value, together))
        return partition, key, value

    def check(self, view: KeyedRecords) -> None:
        """Raise SimulationFailure where the last committed value of a key is not there, or anything that must not be."""
        last: dict[tuple[TopicPartition, bytes], int] = {}
        for partition, records in view.items():
            last.update(self._followed(partition, records))
        for key, changes in self.changes.items():
            self._check_last(key, changes, last.get(key))
        self._check_whole(last, view)
        offsets: dict[tuple[TopicPartition, bytes | None], int] = {
            (p, one.value): one.offset for p, records in view.items() for one in records if one.value is not None
        }
        for sighting in self.sightings:
            for partition, records in sighting.items():
                self._followed(partition, records)
                for one in records:
                    offset = offsets.get((partition, one.value), one.offset)
                    _must(offset == one.offset, f"{partition}: {one.value!r} was at {one.offset}, and is at {offset}")

    def _followed(
        self, partition: TopicPartition, records: Sequence[ConsumedRecord]
    ) -> dict[tuple[TopicPartition, bytes], int]:
        """The last change of each key that was seen: all come in their order, and none that failed."""
        last: dict[tuple[TopicPartition, bytes], int] = {}
        for one in records:
            key = partition, one.key or b""
            changes = self.changes.get(key, [])
            place = last.get(key, -1) + 1
            while place < len(changes) and not (changes[place].can_be_there and changes[place].value == one.value):
                place += 1
            _must(place < len(changes), f"{partition}, {one.offset}: {one.key!r} is {one.value!r} and must not be")
            last[key] = place
        return last

    def _check_last(self, key: tuple[TopicPartition, bytes], changes: Sequence[KeyChange], seen: int | None) -> None:
        """A key that is gone was deleted by a tombstone that is gone, too; and one tombstone is like another."""
        sure = [place for place, change in enumerate(changes) if self._is_sure(change)]
        if not sure or (seen is not None and seen >= sure[-1]):
            return
        found = None if seen is None else changes[seen].value
        if found is None and any(change.value is None and change.can_be_there for change in changes[sure[-1] :]):
            return
        raise SimulationFailure(
            f"{key[0]}: {key[1]!r} is {found!r}, and {changes[sure[-1]].value!r} was committed last"
        )

    def _is_sure(self, change: KeyChange) -> bool:
        together = change.together
        return together.outcome is Outcome.COMMITTED and (together.is_transactional or self.plain_is_durable)

    def _check_whole(self, last: Mapping[tuple[TopicPartition, bytes], int], view: KeyedRecords) -> None:
        """Check that no change of a transaction is missing unless a later one may have replaced it."""
        there = {(p, one.value) for p, records in view.items() for one in records}
        seen: dict[int, bytes] = {}
        missing: dict[int, bytes] = {}
        for (partition, _), changes in self.changes.items():
            is_replaced = False
            for change in reversed(changes):
                if not change.together.is_transactional or not change.can_be_there or change.value is None:
                    is_replaced |= change.can_be_there
                    continue
                if (partition, change.value) in there:
                    seen[id(change.together)] = change.value
                elif not is_replaced:
                    missing[id(change.together)] = change.value
                is_replaced = True
        torn = seen.keys() & missing.keys()
        _must(
            not torn,
            f"{KEYED}: {[(seen[one], missing[one]) for one in torn][:1]}, the first is visible, the second is not",
        )


def keyed_topic(random: Random, *, plain_is_durable: bool) -> NewTopic:
    """Cleaned soon and often, in ways that differ."""
    configs = {
        "cleanup.policy": "compact",
        "segment.ms": str(random.choice((200, 1_000, 5_000))),
        "min.cleanable.dirty.ratio": random.choice(("0.01", "0.3")),
        "delete.retention.ms": str(random.choice((0, 1_000, 20_000))),
        "min.compaction.lag.ms": str(random.choice((0, 0, 3_000))),
    }
    if random.random() < 0.3:
        configs["max.compaction.lag.ms"] = "5000"
    if plain_is_durable:
        configs["flush.messages"] = "1"
    return NewTopic(KEYED, KEYED_PARTITIONS, 1, configs)


def _must(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise SimulationFailure(otherwise)
