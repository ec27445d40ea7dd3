"""Making topics that a client asked for by name, and the coordinators' own topics when they are first needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.broker.config.configuration import Settings
from oncelog.broker.slices import Turn
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, INTERNAL_TOPICS, TRANSACTION_STATE, Topics
from oncelog.coordination import Promise
from oncelog.environment import Clock
from oncelog.wire import ErrorCode
from oncelog.wire.topic_names import name_problem

PARTITIONS_MAX = 10_000
"""One request makes no more, as in Kafka's controller."""
PARTITION_COUNT_SETTINGS = {
    CONSUMER_OFFSETS: "offsets.topic.num.partitions",
    TRANSACTION_STATE: "transaction.state.log.num.partitions",
}
_REPLICATION_FACTOR_SETTINGS = {
    CONSUMER_OFFSETS: "offsets.topic.replication.factor",
    TRANSACTION_STATE: "transaction.state.log.replication.factor",
}


def replication_factor(settings: Settings, name: str) -> int:
    """How many replicas a topic gets that nobody gave a number of them."""
    return settings.number(_REPLICATION_FACTOR_SETTINGS.get(name, "default.replication.factor"))


class AutoTopicCreation:
    """Makes topics without a CreateTopics request, as Kafka's AutoTopicCreationManager does."""

    def __init__(self, clock: Clock, settings: Settings, topics: Topics) -> None:
        self._clock = clock
        self._settings = settings
        self._topics = topics

    def create_internal(self, name: str) -> Promise[ErrorCode]:
        """Make the coordinator topic of this name if it is not there. Errors: those of `Topics.create`."""
        return self._topics.create(name, self.internal_partition_count(name), self._internal_configs(name))

    def internal_partition_count(self, name: str) -> int:
        """How many partitions the topic has, or would get: what the settings say later does not change it, as in Kafka."""
        topic = self._topics.named(name)
        return self._settings.number(PARTITION_COUNT_SETTINGS[name]) if topic is None else len(topic.partitions)

    def _internal_configs(self, name: str) -> dict[str, str]:
        """The settings that Kafka gives the coordinators' topics when it makes them."""
        number = self._settings.number
        if name == CONSUMER_OFFSETS:
            segment_bytes = number("offsets.topic.segment.bytes")
            return {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": str(segment_bytes)}
        return {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(number("transaction.state.log.min.isr")),
            "segment.bytes": str(number("transaction.state.log.segment.bytes")),
            "unclean.leader.election.enable": "false",
        }

    async def create_missing(self, names: Iterable[str]) -> Mapping[str, ErrorCode]:
        """Make the topics that are missing and may be made; return the outcome of each.

        The client asks again for what is too much at once. Errors: those of `Topics.create`, and unknown_topic_or_partition
        once for a topic that was deleted, while another one is made.
        """
        topics_max = max(PARTITIONS_MAX // self._settings.number("num.partitions"), 1)
        turn = Turn(self._clock)
        under_way: dict[str, Promise[ErrorCode]] = {}
        for name in names:
            made = self._create(name)
            if made is not None:
                under_way[name] = made
            if len(under_way) == topics_max:
                break
            if turn.is_over:
                await turn.rest()
        return {name: await made for name, made in under_way.items()}

    def _create(self, name: str) -> Promise[ErrorCode] | None:
        if self._topics.named(name) is not None:
            return None
        if name in INTERNAL_TOPICS:
            return self.create_internal(name)
        if not self._settings.value("auto.create.topics.enable"):
            return None
        if name_problem(name) is not None or self._topics.collision(name) is not None:
            return None
        was_deleted = self._topics.tell_of_deletion(name)
        made = self._topics.create(name, self._settings.number("num.partitions"), {})
        # As by Kafka 4, who had the one before hears of its end before there is another one.
        return Promise.ready(ErrorCode.unknown_topic_or_partition) if was_deleted else made
