"""Topics that end, and topics whose records end: by retention, DeleteRecords and DeleteTopics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from oncelog.client.values import NewTopic, TopicPartition
from oncelog.simulation.broker_node import SimulationFailure
from oncelog.simulation.clients import Sent
from oncelog.simulation.history import Outcome, WrittenTogether

AGING, TRIMMED, REBORN = "aging", "trimmed", "reborn"
SHORT_LIVED = (AGING, TRIMMED, REBORN)


@dataclass(slots=True)
class ShortLivedRecord:
    """A record of a transaction. The ids are the topic's when it was written and when it was committed, where they are known."""

    partition: TopicPartition
    value: bytes
    together: WrittenTogether
    sent: Sent
    id_before: UUID | None
    id_after: UUID | None = None

    @property
    def topic_id(self) -> UUID | None:
        """The topic in which it is for sure."""
        return self.id_after if self.id_before == self.id_after else None

    def offset(self) -> int | None:
        """The offset of the record, if it was committed and its writer got the answer."""
        if self.together.outcome is not Outcome.COMMITTED:
            return None
        return self.sent.offset()


@dataclass(slots=True)
class ShortLivedHistory:
    """`floors` has the offsets below which DeleteRecords has said that nothing is left, `wanted` those it was asked for."""

    records: list[ShortLivedRecord] = field(default_factory=list)
    floors: dict[TopicPartition, int] = field(default_factory=dict)
    wanted: dict[TopicPartition, int] = field(default_factory=dict)
    deleted_ids: set[UUID] = field(default_factory=set)
    """The ids of topics whose deletion was acknowledged."""
    grown: dict[UUID, int] = field(default_factory=dict)
    """How many partitions a topic has, as was acknowledged."""

    def deleted_below(self, partition: TopicPartition, low_watermark: int) -> None:
        self.floors[partition] = max(self.floors.get(partition, 0), low_watermark)

    def a_place_to_trim_at(self, random: Random, partition: TopicPartition) -> int | None:
        """Behind one of the newest records, if there are any."""
        newest = [one for one in self.records[-30:] if one.partition == partition]
        offsets = [offset for one in newest if (offset := one.offset()) is not None]
        if not offsets:
            return None
        chosen = random.choice(offsets) + random.randrange(2)
        self.wanted[partition] = max(self.wanted.get(partition, 0), chosen)
        return chosen

    def committed(self, together: WrittenTogether, topic_id: Callable[[str], UUID | None]) -> None:
        for one in self.records:
            if one.together is together:
                one.id_after = topic_id(one.partition.topic)

    def values_of_deleted_topics(self) -> set[bytes]:
        """Values that must be in no topic: the deletion of their topic was acknowledged."""
        return {one.value for one in self.records if one.topic_id in self.deleted_ids}

    def check_topic(self, name: str, topic_id: UUID, partitions: int) -> None:
        """Check that the answers about a topic stay true."""
        _must(topic_id not in self.deleted_ids, f"{name} was deleted, and is there")
        _must(partitions >= self.grown.get(topic_id, 0), f"{name} was given more partitions, and has {partitions}")

    def check(
        self,
        view: Mapping[TopicPartition, Sequence[tuple[int, bytes]]],
        starts: Mapping[TopicPartition, tuple[int, int]],
        topic_ids: Mapping[str, UUID],
    ) -> None:
        """Raise SimulationFailure where something is gone that must be there, or there that must be gone.

        `starts` is where the partitions began before they were read, and after.
        """
        for partition, (_, start) in starts.items():
            _must(start >= self.floors.get(partition, 0), f"{partition} begins at {start}: what was deleted is back")
            if partition.topic == TRIMMED:
                _must(start <= self.wanted.get(partition, 0), f"{partition} begins at {start}: nobody asked for that")
        there = {partition: dict(records) for partition, records in view.items()}
        for one in self.records:
            offset, topic_id = one.offset(), one.topic_id
            if offset is None or topic_id is None:
                continue
            if topic_id != topic_ids.get(one.partition.topic):
                is_there = one.value in there.get(one.partition, {}).values()
                _must(not is_there, f"{one.partition}: {one.value!r} is of a topic that was deleted")
                continue
            found = there[one.partition].get(offset)
            before, after = starts[one.partition]
            if offset >= after:
                _must(found == one.value, f"{one.partition}: {one.value!r} was at {offset}, and there is {found!r}")
            elif offset < before:
                _must(found is None, f"{one.partition}: {found!r} is at {offset}, before the beginning")


def short_lived_topics(random: Random) -> list[NewTopic]:
    rolled = {
        "segment.ms": str(random.choice((200, 1_000, 5_000))),
        "file.delete.delay.ms": random.choice(("0", "1000")),
    }
    aging = rolled | {"retention.ms": str(random.choice((1_000, 10_000)))}
    return [NewTopic(AGING, 1, 1, aging), NewTopic(TRIMMED, 1, 1, rolled), reborn_topic(random, rolled)]


def reborn_topic(random: Random, configs: Mapping[str, str]) -> NewTopic:
    """A topic whose writes sometimes have to wait: for a thread that compresses, or for the disk."""
    waiting = random.choice(({}, {"compression.type": "zstd"}, {"flush.messages": "1"}))
    return NewTopic(REBORN, 1, 1, {**configs, **waiting})


def _must(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise SimulationFailure(otherwise)
