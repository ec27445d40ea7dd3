"""What the output's cluster says of the topics that are written: partitions, leaders, and what it does not allow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from oncelog.client import BrokerRefused, Client, TopicDescription, TopicPartition, UnsupportedVersion
from oncelog.client.net.rights import topic_error
from oncelog.spark.sink.encoding import RowEncoder, Targets
from oncelog.spark.sink.settings import SinkSettings
from oncelog.spark.sink.unwritable import Limits, RowError
from oncelog.wire import ErrorCode

BATCH_LIMIT = "max.message.bytes"


@dataclass(frozen=True, slots=True)
class OutputTopics:
    """The partitions that can be written, who leads them, and what their topics do not allow."""

    targets: Targets
    leaders: dict[TopicPartition, int]
    batch_bytes_max: Mapping[str, int]
    refused: frozenset[str]


class TopicLimits:
    """How large batches may be, by topic, and which topics this user may not write.

    Asked once for each topic: who takes away more meanwhile gets a refusal of the broker's.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, int | None] = {}
        self._refused: frozenset[str] = frozenset()

    def learn(self, topics: Iterable[str]) -> None:
        """Ask about those of the topics that are new."""
        new = sorted(set(topics) - self._known.keys())
        if new:
            with suppress(UnsupportedVersion):
                self._refused |= self._client.unwritable_topics(new)
            self._ask(new)

    @property
    def batch_bytes_max(self) -> dict[str, int]:
        """The limits, but of topics whose settings this user may not see."""
        return {topic: limit for topic, limit in self._known.items() if limit is not None}

    @property
    def refused(self) -> frozenset[str]:
        return self._refused

    def _ask(self, topics: list[str]) -> None:
        try:
            described = self._client.describe_configs(topics=topics)
        except BrokerRefused:
            # One refusal hides the answers for all the others.
            if len(topics) == 1:
                self._known[topics[0]] = None
                return
            for topic in topics:
                self._ask([topic])
            return
        for topic, entries in described.items():
            value = next((entry.value for entry in entries if entry.name == BATCH_LIMIT), None)
            self._known[topic] = None if value is None else int(value)


def output_topics(
    client: Client, limits: TopicLimits, settings: SinkSettings, columns: Collection[str], others: Collection[str] = ()
) -> OutputTopics:
    """Ask for the partitions as they are now: there may be more than there were. Raises RowError.

    `columns` are those of the rows. One that names its topic or its partition counts as unwritable where that is not known
    here, and one node may not have heard of it yet: every node is asked. What else the client is to hear of is in `others`.
    """
    named = [topic for topic in (settings.topic, settings.dead_letter_topic) if topic is not None]
    if settings.topic is None:
        described = client.topics_of_every_node()
    else:
        asked = [*named, *others]
        described = client.topics_of_every_node(asked) if "partition" in columns else client.metadata(asked)
    for topic in named:
        error = described[topic].error if topic in described else ErrorCode.unknown_topic_or_partition
        if error is ErrorCode.unknown_topic_or_partition:
            raise RowError(
                f"there is no topic {topic!r} at {settings.bootstrap_servers}: make it first, as with oncelog topics create {topic}"
            )
        if error is not ErrorCode.none:
            raise RowError(f"topic {topic!r} cannot be written: {topic_error(topic, error)}")
    leaders = _leaders(described.values())
    limits.learn(partition.topic for partition in leaders)
    return OutputTopics(Targets(tuple(sorted(leaders))), leaders, limits.batch_bytes_max, limits.refused)


def row_encoder(settings: SinkSettings, topics: OutputTopics, rotation: int) -> RowEncoder:
    """How rows become record batches for these topics."""
    return RowEncoder(
        topic=settings.topic,
        targets=topics.targets,
        codec=settings.codec,
        batch_bytes_max=settings.batch_bytes_max,
        rotation=rotation,
        limits=Limits(topics.batch_bytes_max, topics.refused, settings.request_bytes_max),
        policy=settings.unwritable,
        dead_letter_topic=settings.dead_letter_topic,
    )


def _leaders(topics: Iterable[TopicDescription]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, item.partition): item.leader
        for topic in topics
        if topic.error is ErrorCode.none and not topic.is_internal
        for item in topic.partitions
    }
