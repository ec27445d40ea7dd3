"""What the driver asks the input's cluster: which partitions there are, and where they begin and end."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from oncelog.client import Client
from oncelog.client.errors import ClientError
from oncelog.client.values import OffsetSpec, TopicPartition
from oncelog.spark.offsets import Offsets
from oncelog.spark.options import Boundary, OptionError, SourceOptions
from oncelog.wire import ErrorCode

T = TypeVar("T")

PARTITIONS_AGE_MS_MAX = 1000
"""How old the list of partitions may be: new ones are found this much later."""

NO_OFFSET = -1


class SourceCluster:
    """A client for the driver's questions, connected when the first is asked. Pickled, it is only its options."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client: Client | None = None
        self._partitions: list[TopicPartition] = []
        self._partitions_until_ms = 0.0

    def __reduce__(self) -> tuple[type[SourceCluster], tuple[SourceOptions]]:
        return SourceCluster, (self._options,)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def partitions(self) -> list[TopicPartition]:
        """What the subscription names at present. Raises OptionError for a topic or partition that does not exist."""
        now_ms = time.monotonic() * 1000
        if now_ms >= self._partitions_until_ms:
            self._partitions = self._asked(self._find_partitions)
            self._partitions_until_ms = now_ms + PARTITIONS_AGE_MS_MAX
        return self._partitions

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self.at(dict.fromkeys(partitions, OffsetSpec.EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The last stable offsets, or the high watermarks for read_uncommitted."""
        return self.at(dict.fromkeys(partitions, OffsetSpec.LATEST))

    def at(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        """The first offset at or after each time, in ms, or at an OffsetSpec; -1 where no record is that late."""
        if not wanted:
            return {}
        isolation_level = self._options.isolation_level
        answers = self._asked(lambda: self._connected().list_offsets(wanted, isolation_level=isolation_level))
        return {partition: answer.offset for partition, answer in answers.items()}

    def resolve(self, boundary: Boundary, *, missing_is_latest: bool) -> Offsets:
        """The offset of every partition at a boundary. Raises OptionError when the boundary does not fit the topics."""
        partitions = self.partitions()
        if boundary.everywhere is not None:
            return self.at(dict.fromkeys(partitions, boundary.everywhere))
        if boundary.timestamp_ms is not None:
            return self._by_timestamp(dict.fromkeys(partitions, boundary.timestamp_ms), missing_is_latest)
        if boundary.timestamps_ms is not None:
            _check_complete(boundary.timestamps_ms, partitions)
            return self._by_timestamp(boundary.timestamps_ms, missing_is_latest)
        assert boundary.offsets is not None
        _check_complete(boundary.offsets, partitions)
        asked = self.at({partition: offset for partition, offset in boundary.offsets.items() if offset < 0})
        return {**boundary.offsets, **asked}

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
            self._client = Client(
                self._options.bootstrap_servers,
                client_id=self._options.client_id,
                call_timeout_ms=self._options.poll_timeout_ms,
            )
        return self._client

    def _asked(self, ask: Callable[[], T]) -> T:
        for _ in range(self._options.offset_retries):
            try:
                return ask()
            except ClientError:
                self.close()
                time.sleep(self._options.offset_retry_interval_ms / 1000)
        return ask()

    def _find_partitions(self) -> list[TopicPartition]:
        subscription = self._options.subscription
        if subscription.pattern is not None:
            names = [name for name in self._connected().metadata() if re.fullmatch(subscription.pattern, name)]
        elif subscription.partitions:
            names = sorted({partition.topic for partition in subscription.partitions})
        else:
            names = list(subscription.topics)
        found = self._partitions_of(names)
        if subscription.partitions:
            return _only_assigned(found, subscription.partitions)
        return found

    def _partitions_of(self, names: list[str]) -> list[TopicPartition]:
        if not names:
            return []
        found = []
        for name, topic in self._connected().metadata(names).items():
            if topic.error is ErrorCode.unknown_topic_or_partition:
                raise OptionError(f"topic {name!r} does not exist at {self._options.bootstrap_servers}")
            if topic.error is not ErrorCode.none:
                raise OptionError(f"topic {name!r} cannot be read: {topic.error.name}")
            found += [TopicPartition(name, item.partition) for item in topic.partitions]
        return sorted(found)


def _only_assigned(found: list[TopicPartition], assigned: Iterable[TopicPartition]) -> list[TopicPartition]:
    missing = set(assigned) - set(found)
    if missing:
        raise OptionError(f"partition {min(missing)} is assigned, but does not exist")
    return sorted(assigned)


def _check_complete(given: Iterable[TopicPartition], partitions: Iterable[TopicPartition]) -> None:
    given, partitions = set(given), set(partitions)
    if given != partitions:
        which = "is missing" if partitions - given else "does not exist"
        odd = min(partitions - given or given - partitions)
        raise OptionError(f"offsets or times for single partitions have to name every partition: {odd} {which}")
