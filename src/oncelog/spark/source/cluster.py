"""The driver's view of the input's cluster: its partitions, and where they begin and end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar
from uuid import UUID

from oncelog.client import Client
from oncelog.client.descriptions import TopicDescription
from oncelog.client.errors import AuthenticationFailed, BrokerRefused, ClientError, RetriesExhausted
from oncelog.client.net.rights import topic_error
from oncelog.client.values import IsolationLevel, OffsetSpec, TopicPartition
from oncelog.spark.offsets import IdsByTopic, Offsets
from oncelog.spark.options.boundaries import Boundary
from oncelog.spark.options.source_options import ConnectionOptions, SourceOptions
from oncelog.spark.options.table import OptionError
from oncelog.spark.options.topic_pattern import compiled
from oncelog.spark.source.errors import NoAnswerError
from oncelog.spark.wait_log import WaitLog
from oncelog.wire import ErrorCode

T = TypeVar("T")

NO_OFFSET = -1

logger = logging.getLogger("oncelog.spark")


def open_client(connection: ConnectionOptions) -> Client:
    return Client(
        connection.bootstrap_servers,
        client_id=connection.client_id,
        request_timeout_ms=connection.request_timeout_ms,
        connect_timeout_ms=connection.connect_timeout_ms,
        call_timeout_ms=connection.api_timeout_ms,
        security=connection.security,
    )


class SourceCluster:
    """A client for the driver's questions, connected when the first is asked. Pickled, it is only its options.

    Every question raises NoAnswerError when no broker answers in time, and ClientError when one refuses.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client: Client | None = None
        self._partitions: list[TopicPartition] = []
        self._partitions_until_ms = 0.0
        self._topic_ids: dict[str, UUID] = {}
        self._former_ids: set[UUID] = set()
        self.made_anew: set[str] = set()
        """Topics that were deleted, and made again with the same name, since they were first read."""

    def __reduce__(self) -> tuple[type[SourceCluster], tuple[SourceOptions]]:
        return SourceCluster, (self._options,)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    @property
    def topic_ids(self) -> IdsByTopic:
        """The ids of topics that are known. Brokers before Kafka 2.8 give them none."""
        return self._topic_ids

    def were_read_as(self, topic_ids: IdsByTopic) -> None:
        """Take the ids of topics that were read before, perhaps by another run of the query."""
        for topic, read_as in topic_ids.items():
            present = self._topic_ids.setdefault(topic, read_as)
            if present != read_as and read_as not in self._former_ids:
                self._note_made_anew(topic, read_as)

    def partitions(self, was_read: Collection[TopicPartition] = ()) -> list[TopicPartition]:
        """The partitions of the subscription at present. Those that were read and deleted are left out.

        Raises OptionError for a topic or partition that does not exist and was never read.
        """
        now_ms = time.monotonic() * 1000
        if now_ms >= self._partitions_until_ms:
            topics = {partition.topic for partition in was_read} | self._topic_ids.keys()
            partitions = {*was_read, *self._partitions}
            self._partitions = self._asked(lambda client: self._find_partitions(client, topics, partitions))
            self._partitions_until_ms = now_ms + self._options.metadata_age_ms_max
        return self._partitions

    def partitions_there(self) -> list[TopicPartition]:
        """The existing partitions of the subscription, before it is known what was read."""
        subscribed = self._options.subscription
        topics = {*subscribed.topics, *(partition.topic for partition in subscribed.partitions)}
        return self._asked(lambda client: self._find_partitions(client, topics, subscribed.partitions))

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self.at(dict.fromkeys(partitions, OffsetSpec.EARLIEST))

    def earliest_of_those_there(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The same for partitions that were seen before: those that were deleted since have none."""
        try:
            return self.earliest(partitions)
        except BrokerRefused as refused:
            if refused.error is not ErrorCode.unknown_topic_or_partition:
                raise
        topics = {partition.topic for partition in partitions}
        described = self._asked(lambda client: client.metadata(topics, partitions))
        there = {TopicPartition(name, item.partition) for name, topic in described.items() for item in topic.partitions}
        return self.earliest(there.intersection(partitions))

    def ends(self, was_read: Offsets) -> Offsets:
        """The latest offsets of `partitions()`. One is before the offset that was read only if records were lost."""
        try:
            return self._ends(was_read)
        except BrokerRefused as refused:
            if refused.error is not ErrorCode.unknown_topic_or_partition:
                raise
        # The list of partitions was older than a deletion.
        self._partitions_until_ms = 0.0
        return self._ends(was_read)

    def _ends(self, was_read: Offsets) -> Offsets:
        partitions, level = self.partitions(was_read), self._options.fetch.isolation_level
        return self._asked(lambda client: client.end_offsets(partitions, isolation_level=level, at_least=was_read))

    def refresh_leaders(self) -> None:
        """Ask every node who leads what is subscribed: the newest leader epoch counts from then on (KIP-320)."""
        subscribed = self._options.subscription
        names = {*subscribed.topics, *(partition.topic for partition in subscribed.partitions)}
        self._asked(lambda client: client.topics_of_every_node(None if subscribed.pattern is not None else names))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The last stable offsets, or the high watermarks for read_uncommitted."""
        return self.at(dict.fromkeys(partitions, OffsetSpec.LATEST))

    def at(self, wanted: Mapping[TopicPartition, int], isolation_level: IsolationLevel | None = None) -> Offsets:
        """The first offset at or after each time, in ms, or at an OffsetSpec; -1 where no record is that late."""
        if not wanted:
            return {}
        level = self._options.fetch.isolation_level if isolation_level is None else isolation_level
        answers = self._asked(lambda client: client.list_offsets(wanted, isolation_level=level))
        return {partition: answer.offset for partition, answer in answers.items()}

    def resolve(self, boundary: Boundary, *, missing_is_latest: bool) -> Offsets:
        """The offset of every partition at a boundary. Raises OptionError when the boundary does not fit the topics."""
        partitions = self.partitions()
        if boundary.everywhere is not None:
            return self.at(dict.fromkeys(partitions, boundary.everywhere))
        if boundary.timestamp_ms is not None:
            return self._by_timestamp(dict.fromkeys(partitions, boundary.timestamp_ms), missing_is_latest)
        if boundary.timestamps_ms is not None:
            _check_complete(boundary.option, boundary.timestamps_ms, partitions)
            return self._by_timestamp(boundary.timestamps_ms, missing_is_latest)
        assert boundary.offsets is not None
        whole = {
            partition: boundary.topics[partition.topic]
            for partition in partitions
            if partition.topic in boundary.topics
        }
        unread = boundary.topics.keys() - {partition.topic for partition in whole}
        if unread:
            raise OptionError(f"option {boundary.option} names topic {min(unread)!r}, which is not read")
        _check_complete(boundary.option, {**whole, **boundary.offsets}, partitions)
        specs = {partition: offset for partition, offset in boundary.offsets.items() if offset < 0}
        asked = self.at({**whole, **specs})
        return {**self._within_the_log(boundary), **asked}

    def _within_the_log(self, boundary: Boundary) -> Offsets:
        """The offsets that a user gave as numbers, none of them beyond the end of its partition."""
        given = {partition: offset for partition, offset in (boundary.offsets or {}).items() if offset >= 0}
        ends = self.at(dict.fromkeys(given, OffsetSpec.LATEST), IsolationLevel.READ_UNCOMMITTED)
        beyond = [partition for partition, offset in given.items() if offset > ends[partition]]
        for partition in sorted(beyond):
            sentence = (
                f"option {boundary.option}: {partition} ends at offset {ends[partition]}, before {given[partition]}"
            )
            if self._options.fail_on_data_loss:
                raise OptionError(f"{sentence}; failOnDataLoss=false takes the end instead")
            logger.warning("oncelog: %s; the end is taken instead", sentence)
        return {partition: min(offset, ends[partition]) for partition, offset in given.items()}

    def _by_timestamp(self, timestamps_ms: Mapping[TopicPartition, int], missing_is_latest: bool) -> Offsets:
        found = self.at(timestamps_ms)
        missing = [partition for partition, offset in found.items() if offset == NO_OFFSET]
        if missing and not missing_is_latest:
            raise OptionError(
                f"{missing[0]} has no record at or after its starting time; "
                "startingOffsetsByTimestampStrategy=latest starts such partitions at their end"
            )
        return {**found, **self.latest(missing)}

    def _connected(self) -> Client:
        if self._client is None:
            self._client = open_client(self._options.connection)
        return self._client

    def _asked(self, ask: Callable[[Client], T]) -> T:
        """Ask until there is an answer, the retries are used up, or the client's time is over."""
        servers, limit_ms = self._options.connection.bootstrap_servers, self._options.connection.api_timeout_ms
        retries = self._options.offset_retries
        with WaitLog(f"no answer from {servers}", f"; giving up after {limit_ms / 1000:.0f} s") as wait:
            wait.begin()
            while True:
                try:
                    return ask(self._connected())
                except RetriesExhausted as error:
                    self.close()
                    raise NoAnswerError(servers, limit_ms, error) from error
                except ClientError as error:
                    self.close()
                    if not retries or isinstance(error, AuthenticationFailed):
                        raise
                    retries -= 1
                    time.sleep(self._options.offset_retry_interval_ms / 1000)

    def _find_partitions(
        self, client: Client, topics_read: Collection[str], partitions_read: Collection[TopicPartition]
    ) -> list[TopicPartition]:
        subscription = self._options.subscription
        if subscription.pattern is not None:
            topics = self._matching(client.metadata(wanted=partitions_read), subscription.pattern)
        else:
            names = set(subscription.topics or (partition.topic for partition in subscription.partitions))
            wanted = [partition for partition in partitions_read if partition.topic in names]
            topics = [topic for topic in client.metadata(names, wanted).values() if not _is_gone(topic, topics_read)]
        for topic in topics:
            self._check_topic(topic)
        found = sorted(TopicPartition(topic.name, item.partition) for topic in topics for item in topic.partitions)
        return _assigned(found, subscription.partitions, partitions_read) if subscription.partitions else found

    def _matching(self, topics: Mapping[str, TopicDescription], pattern: str) -> list[TopicDescription]:
        return [
            topic
            for name, topic in topics.items()
            if topic.error is ErrorCode.none
            and not (topic.is_internal and self._options.exclude_internal_topics)
            and compiled(pattern).search(name)
        ]

    def _check_topic(self, topic: TopicDescription) -> None:
        servers = self._options.connection.bootstrap_servers
        if topic.error is ErrorCode.unknown_topic_or_partition:
            raise OptionError(f"topic {topic.name!r} does not exist at {servers}")
        if topic.error is not ErrorCode.none:
            raise OptionError(f"topic {topic.name!r} cannot be read: {topic_error(topic.name, topic.error)}")
        if topic.topic_id is None:
            return
        known = self._topic_ids.setdefault(topic.name, topic.topic_id)
        if known != topic.topic_id:
            self._note_made_anew(topic.name, known)
            self._topic_ids[topic.name] = topic.topic_id

    def _note_made_anew(self, topic: str, former: UUID) -> None:
        self.made_anew.add(topic)
        self._former_ids.add(former)


def _is_gone(topic: TopicDescription, topics_read: Collection[str]) -> bool:
    return topic.error is ErrorCode.unknown_topic_or_partition and topic.name in topics_read


def _assigned(
    found: Iterable[TopicPartition], assigned: Iterable[TopicPartition], were_read: Iterable[TopicPartition]
) -> list[TopicPartition]:
    there = set(found).intersection(assigned)
    missing = set(assigned).difference(there, were_read)
    if missing:
        raise OptionError(f"partition {min(missing)} is assigned, but does not exist")
    return sorted(there)


def _check_complete(option: str, given: Iterable[TopicPartition], partitions: Iterable[TopicPartition]) -> None:
    given, partitions = set(given), set(partitions)
    if given != partitions:
        which = "is missing" if partitions - given else "does not exist"
        odd = min(partitions - given or given - partitions)
        raise OptionError(f"option {option} has to name every partition: {odd} {which}")
