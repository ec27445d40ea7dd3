"""The topics of this broker: what there is, making them, deleting them."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from oncelog.broker.config.configuration import Settings, topic_values
from oncelog.broker.config.setting import Value, items_of
from oncelog.broker.slices import Slices
from oncelog.broker.storage.log_settings import log_config
from oncelog.broker.storage.partition import Partition, ReplicaRole, UnopenedLog
from oncelog.coordination import Promise
from oncelog.environment import DiskError
from oncelog.log import DamagedLogError, DataDirectory, LogConfig, PartitionLog
from oncelog.records import Codec, Form
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.broker")

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = (CONSUMER_OFFSETS, TRANSACTION_STATE)

NO_SUCH_TOPIC = "This server does not host this topic-partition."
"""In Kafka's words, which scripts look for; where Kafka answers without a text, its clients say this."""

CODEC_OF_TYPE = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
    "producer": None,
}
"""The codecs under the names of compression.type."""

OpenLog = Callable[["Topic", int, LogConfig], tuple[PartitionLog | UnopenedLog, DataDirectory]]


@dataclass(slots=True)
class Topic:
    """A topic. The settings that every batch needs are kept apart from the others."""

    name: str
    topic_id: UUID
    configs: dict[str, str]
    values: Mapping[str, Value]
    partitions: list[Partition]
    offline: set[int] = field(default_factory=set)
    """The partitions that are damaged, or in a log directory that is offline."""
    policies: list[str] = field(init=False)
    form: Form = field(init=False)

    def __post_init__(self) -> None:
        self.take(self.values)

    def take(self, values: Mapping[str, Value]) -> None:
        """Have these settings from now on."""
        self.values = values
        self.policies = items_of(str(values["cleanup.policy"]))
        level = values.get(f"compression.{values['compression.type']}.level")
        self.form = Form(
            size_bytes_max=int(values["max.message.bytes"]),
            codec=CODEC_OF_TYPE[str(values["compression.type"])],
            level=None if level is None else int(level),
            needs_keys="compact" in self.policies,
        )

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> Partition | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


def replicas_problem(node_id: int, replicas: Sequence[int]) -> str | None:
    """Say why a partition cannot be assigned to these brokers, in Kafka's own words; or None."""
    assigned = "The manual partition assignment includes"
    if not replicas:
        return f"{assigned} an empty replica list."
    # Kafka looks at them in the order of their numbers.
    for replica in sorted(replicas):
        if replica != node_id:
            return f"{assigned} broker {replica}, but no such broker is registered."
        if replicas.count(replica) > 1:
            return f"{assigned} the broker {replica} more than once."
    return None


class Topics(ABC):
    """Every topic by name and by id, with its partitions, their logs and their settings."""

    def __init__(
        self,
        slices: Slices,
        leader_epoch: int,
        settings: Settings,
        open_log: OpenLog,
        delete_unopened: Callable[[Topic, int, UnopenedLog], None],
        survives: Callable[[DiskError], bool],
    ) -> None:
        """`survives` is told of a disk that fails, and says whether the broker goes on without the directory it is about."""
        self._slices = slices
        self._wakes = slices.apart()
        self._leader_epoch = leader_epoch
        self._settings = settings
        self._open_log = open_log
        self._delete_unopened = delete_unopened
        self._survives = survives
        self.on_offline: Callable[[Partition], None] = lambda _: None
        """Hears of each partition that is served no more."""
        self.version = 0
        """How often a topic was made, deleted or given more partitions since the start."""
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._being_deleted: dict[str, Promise[None]] = {}

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def named(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def told(self, name: str) -> Topic | None:
        """The topic of this name that clients are told of."""
        return self.named(name)

    def with_id(self, topic_id: UUID) -> Topic | None:
        return self._by_id.get(topic_id)

    def still_named(self, topic_id: UUID) -> Topic | None:
        """The topic that clients mean by this id. One whose name is not its own any more was deleted: replicas are left over."""
        topic = self._by_id.get(topic_id)
        return topic if topic is not None and self._by_name.get(topic.name) is topic else None

    def partition(self, topic: str, index: int) -> Partition | None:
        found = self._by_name.get(topic)
        return found.partitions[index] if found is not None and 0 <= index < len(found.partitions) else None

    def partitions(self) -> Iterator[Partition]:
        """Every partition whose log can be used."""
        return (one for one in self.every_partition() if one.is_readable)

    def every_partition(self) -> Iterator[Partition]:
        """The partitions of which the broker has a replica, offline ones too.

        Topics and partitions may come and go between two steps: each is there when it is its turn.
        """
        for topic in tuple(self._by_id.values()):
            for partition in tuple(topic.partitions):
                if self._by_id.get(topic.topic_id) is not topic:
                    break
                if partition.role is not ReplicaRole.NONE:
                    yield partition

    def is_offline(self, topic: str, index: int) -> bool:
        found = self._by_name.get(topic)
        return found is not None and index in found.offline

    def failed(self, partition: Partition, error: DiskError) -> None:
        """Serve a partition no more whose files are damaged, or all of a directory whose disk fails.

        Raises the error if the broker cannot go on without it.
        """
        if isinstance(error, DamagedLogError):
            self.take_offline(partition, error)
        elif not self._survives(error):
            raise error

    def take_offline(self, partition: Partition, damage: DamagedLogError) -> None:
        """Serve a damaged partition no more. Those that wait for it are woken, and told."""
        logger.error("%s is offline: %s", partition, damage)
        partition.damage = str(damage)
        self._went_offline(partition)

    def take_directory_offline(self, directory: DataDirectory) -> list[Partition]:
        """The disk of a directory has failed. Those that wait for its partitions are woken, and told. Return them all."""
        found = [partition for partition in self.every_partition() if partition.directory is directory]
        for partition in found:
            self._went_offline(partition)
        return found

    def _went_offline(self, partition: Partition) -> None:
        # Of a name another topic may have by now.
        topic = self._by_id.get(partition.topic_id)
        if topic is not None and partition.index not in topic.offline:
            topic.offline.add(partition.index)
            self.on_offline(partition)
        partition.wake()

    def collision(self, name: str) -> str | None:
        """A topic whose name differs only in dots and underscores: Kafka's metric names cannot tell the two apart."""
        if "." not in name and "_" not in name:
            return None
        folded = name.replace(".", "_")
        for other in self._names():
            if other != name and other.replace(".", "_") == folded:
                return other
        return None

    def _names(self) -> Iterable[str]:
        return self._by_name

    def exists(self, name: str) -> bool:
        return name in self._by_name

    def tell_of_deletion(self, name: str) -> bool:
        """True once after the topic of this name was deleted: the client that asks first is told."""
        return False

    @abstractmethod
    def create(self, name: str, partition_count: int, configs: Mapping[str, str]) -> Promise[ErrorCode]:
        """Make a topic unless it is there. The caller has checked name, count and configs.

        Errors: leader_not_available, if it is made and not here yet; others say why it cannot be made.
        """

    def is_being_deleted(self, name: str) -> bool:
        return name in self._being_deleted

    def is_going(self, topic: Topic) -> bool:
        """True from the beginning of its deletion on: nothing is recorded for it that the next topic of its name could find."""
        return topic.name in self._being_deleted

    def _open(self, topic: Topic, start: int, stop: int, opened: list[Partition]) -> Iterator[None]:
        """Open the logs of these partitions, one each step."""
        config = log_config(self._settings, topic.values, is_internal=topic.is_internal)
        for index in range(start, stop):
            log, directory = self._open_log(topic, index, config)
            partition = Partition(topic.name, index, self._leader_epoch, self.failed, self._wakes)
            partition.host(log, directory, ReplicaRole.LEADER)
            opened.append(partition)
            yield

    def _note_offline(self, topic: Topic) -> None:
        """A directory may have failed between two partitions of those that are new."""
        topic.offline.update(partition.index for partition in topic.partitions if partition.is_offline)

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
        config = log_config(self._settings, topic.values, is_internal=topic.is_internal)
        configure_logs(topic.partitions, config)

    def _remove_files(self, topic: Topic, partition: Partition) -> None:
        """Delete the files; those in a directory that is offline go at the next start."""
        if partition.unopened is None:
            partition.log.abandon() if partition.directory.is_offline else partition.log.delete()
        elif not partition.directory.is_offline:
            self._delete_unopened(topic, partition.index, partition.unopened)


def configure_logs(partitions: Iterable[Partition], config: LogConfig) -> None:
    for partition in partitions:
        if partition.role is not ReplicaRole.NONE and partition.unopened is None:
            partition.log.configure(config)
