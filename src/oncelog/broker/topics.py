"""The topics of this broker: what there is, making them, deleting them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from oncelog.broker.configuration import Settings, topic_values
from oncelog.broker.journal import Journal, TopicCreated, TopicDeleted
from oncelog.broker.partition import Partition
from oncelog.broker.setting import Value, items_of
from oncelog.broker.slices import Slices
from oncelog.coordination import Parked
from oncelog.environment import DiskError, Random
from oncelog.log import LogConfig, PartitionLog
from oncelog.records import Codec
from oncelog.wire import ErrorCode

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = (CONSUMER_OFFSETS, TRANSACTION_STATE)

NAME_LENGTH_MAX = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]+")

CODEC_OF_TYPE = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
    "producer": None,
}
"""The codecs under the names of compression.type."""

OpenLog = Callable[["Topic", int, LogConfig], PartitionLog]


@dataclass(slots=True)
class Topic:
    """What is asked of every batch is kept apart from the other settings: the policies for old records, and the codec
    that stored batches must have, which is None if each keeps its producer's.
    """

    name: str
    topic_id: UUID
    configs: dict[str, str]
    values: Mapping[str, Value]
    partitions: list[Partition]
    policies: list[str] = field(init=False)
    codec: Codec | None = field(init=False)

    def __post_init__(self) -> None:
        self.take(self.values)

    def take(self, values: Mapping[str, Value]) -> None:
        """Have these settings from now on."""
        self.values = values
        self.policies = items_of(str(values["cleanup.policy"]))
        self.codec = CODEC_OF_TYPE[str(values["compression.type"])]

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    @property
    def compression_level(self) -> int | None:
        name = f"compression.{self.values['compression.type']}.level"
        level = self.values.get(name)
        return None if level is None else int(level)

    def partition(self, index: int) -> Partition | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


def name_problem(name: str) -> str | None:
    """Say why Kafka would not take this topic name, or None."""
    if not name:
        return "the topic name is empty"
    if name in (".", ".."):
        return "a topic is not named . or .."
    if len(name) > NAME_LENGTH_MAX:
        return f"the topic name has {len(name)} characters, more than {NAME_LENGTH_MAX}"
    if not _NAME.fullmatch(name):
        return f"the topic name {name!r} has characters other than letters, digits, dot, underscore and hyphen"
    return None


def log_config(settings: Settings, topic: str, values: Mapping[str, Value]) -> LogConfig:
    """The settings of a topic's logs, from those of the topic."""
    values = dict(values)
    if topic in INTERNAL_TOPICS or "delete" not in items_of(str(values["cleanup.policy"])):
        # The coordinators need the last record of every key, however old it is.
        values |= {"retention.ms": -1, "retention.bytes": -1}

    def number(name: str) -> int:
        value = values[name]
        assert isinstance(value, int)
        return value

    return LogConfig(
        segment_bytes=number("segment.bytes"),
        segment_ms=number("segment.ms"),
        segment_jitter_ms=number("segment.jitter.ms"),
        segment_index_bytes=number("segment.index.bytes"),
        index_interval_bytes=number("index.interval.bytes"),
        max_message_bytes=number("max.message.bytes"),
        flush_messages=number("flush.messages"),
        flush_ms=number("flush.ms"),
        retention_ms=number("retention.ms"),
        retention_bytes=number("retention.bytes"),
        file_delete_delay_ms=number("file.delete.delay.ms"),
        message_timestamp_type=str(values["message.timestamp.type"]),
        message_timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
        message_timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
        producer_id_expiration_ms=settings.number("producer.id.expiration.ms"),
    )


class Topics:
    """Every topic by name and by id. A change is durable in the journal before anybody hears of it."""

    def __init__(
        self,
        journal: Journal,
        slices: Slices,
        random: Random,
        leader_epoch: int,
        settings: Settings,
        open_log: OpenLog,
        before_deletion: Callable[[Topic], Parked[None]],
        after_deletion: Callable[[Topic], Parked[None]],
        on_failure: Callable[[DiskError], None],
    ) -> None:
        self._journal = journal
        self._slices = slices
        self._random = random
        self._leader_epoch = leader_epoch
        self._settings = settings
        self._open_log = open_log
        self._before_deletion = before_deletion
        self._after_deletion = after_deletion
        self._on_failure = on_failure
        self.version = 0
        """How often a topic was made, deleted or given more partitions since the start."""
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._being_made: dict[str, Parked[Topic]] = {}
        self._growing: dict[UUID, Parked[None]] = {}
        self._being_deleted: dict[str, Parked[ErrorCode]] = {}
        self._names_in_use: dict[str, Parked[None]] = {}

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def named(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def with_id(self, topic_id: UUID) -> Topic | None:
        return self._by_id.get(topic_id)

    def partition(self, topic: str, index: int) -> Partition | None:
        found = self._by_name.get(topic)
        return None if found is None else found.partition(index)

    def partitions(self) -> Iterator[Partition]:
        """Every partition; while topics and partitions come and go, those that are there when it is their turn."""
        for topic in tuple(self._by_name.values()):
            for partition in tuple(topic.partitions):
                if self._by_id.get(topic.topic_id) is not topic:
                    break
                yield partition

    def collision(self, name: str) -> str | None:
        """A topic whose name differs only in dots and underscores: Kafka's metric names cannot tell the two apart."""
        folded = name.replace(".", "_")
        for other in (*self._by_name, *self._being_made):
            if other != name and other.replace(".", "_") == folded:
                return other
        return None

    def exists(self, name: str) -> bool:
        return name in self._by_name or name in self._being_made

    def create(self, name: str, partition_count: int, configs: Mapping[str, str]) -> Parked[Topic]:
        """Make a topic, or wait for one that is being made. The caller has checked name, count and configs."""
        if name in self._by_name:
            return Parked.ready(self._by_name[name])
        if name in self._being_made:
            return self._being_made[name]
        made: Parked[Topic] = Parked()
        if name in self._being_deleted:
            # The directories of the old one have its name until they are gone.
            self._being_deleted[name].then(lambda _: self.create(name, partition_count, configs).then(made.release))
            return made
        self._being_made[name] = made
        record = TopicCreated(
            name=name, topic_id=str(self._random.uuid()), partition_count=partition_count, configs=dict(configs)
        )

        def durable(error: DiskError | None) -> None:
            if error is not None:
                self._on_failure(error)
                return
            self._slices.run(self._make(record)).then(opened)

        def opened(_: None) -> None:
            del self._being_made[name]
            made.release(self._by_name[name])

        free = self._names_in_use.get(name)
        if free is None:
            self._journal.append(record, durable)
        else:
            free.then(lambda _: self._journal.append(record, durable))
        return made

    def replay_created(self, record: TopicCreated) -> None:
        """Open a topic's logs. Raises SettingError for a configuration that is not allowed."""
        for _ in self._make(record):
            pass

    def _make(self, record: TopicCreated) -> Iterator[None]:
        """Open a topic's logs, one each step; at the end it is there."""
        configs = dict(record.configs)
        topic = Topic(record.name, record.uuid, configs, topic_values(self._settings, configs), [])
        yield from self._open(topic, 0, record.partition_count, topic.partitions)
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self.version += 1

    def _open(self, topic: Topic, start: int, stop: int, opened: list[Partition]) -> Iterator[None]:
        """Open the logs of these partitions, one each step."""
        config = log_config(self._settings, topic.name, topic.values)
        for index in range(start, stop):
            opened.append(Partition(topic.name, index, self._leader_epoch, self._open_log(topic, index, config)))
            yield

    def grow(self, topic: Topic, partition_count: int) -> Parked[None]:
        """Give a topic as many partitions; the journal says so already. It is not deleted before they are there."""
        opened: list[Partition] = []
        grown: Parked[None] = Parked()
        self._growing[topic.topic_id] = grown

        def add(_: None) -> None:
            # It may have been given other settings meanwhile.
            config = log_config(self._settings, topic.name, topic.values)
            for partition in opened:
                partition.log.configure(config)
            topic.partitions += opened
            self.version += 1
            del self._growing[topic.topic_id]
            grown.release(None)

        self._slices.run(self._open(topic, len(topic.partitions), partition_count, opened)).then(add)
        return grown

    def configure(self, topic: Topic, configs: Mapping[str, str]) -> None:
        """Give a topic other settings, which its open logs obey from now on; the journal says so already."""
        topic.configs = dict(configs)
        self._apply_settings(topic)

    def settings_changed(self) -> None:
        """The broker's settings are others now: let the open logs obey them."""
        for topic in self:
            self._apply_settings(topic)

    def _apply_settings(self, topic: Topic) -> None:
        topic.take(topic_values(self._settings, topic.configs))
        config = log_config(self._settings, topic.name, topic.values)
        for partition in topic.partitions:
            partition.log.configure(config)

    def is_being_deleted(self, name: str) -> bool:
        return name in self._being_deleted

    def delete(self, topic: Topic) -> Parked[ErrorCode]:
        """Delete a topic and its files; readers that wait for it are woken and find it gone."""
        if topic.name in self._being_deleted:
            return self._being_deleted[topic.name]
        gone: Parked[ErrorCode] = Parked()
        self._being_deleted[topic.name] = gone

        def durable(error: DiskError | None) -> None:
            if error is not None:
                self._on_failure(error)
                return
            self._growing.get(topic.topic_id, Parked.ready(None)).then(forget)

        def forget(_: None) -> None:
            del self._by_name[topic.name]
            del self._by_id[topic.topic_id]
            self.version += 1
            self._slices.run(remove()).then(removed)

        def remove() -> Iterator[None]:
            for partition in topic.partitions:
                partition.log.delete()
                partition.wake()
                yield

        def removed(_: None) -> None:
            del self._being_deleted[topic.name]
            self._free_name(topic)
            gone.release(ErrorCode.none)

        self._before_deletion(topic).then(lambda _: self._journal.append(TopicDeleted(name=topic.name), durable))
        return gone

    def _free_name(self, topic: Topic) -> None:
        """Let a topic be made under the name of one that is gone when nothing of that one can come back."""
        free = self._names_in_use[topic.name] = self._after_deletion(topic)

        def done(_: None) -> None:
            del self._names_in_use[topic.name]

        free.then(done)
