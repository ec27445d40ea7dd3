"""The ordinary consumer without threads or tasks: partitions as records, from positions that the caller sets."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from oncelog.client.cluster import Cluster
from oncelog.client.committed_batches import visible_batches
from oncelog.client.conversation import Conversation, Now
from oncelog.client.errors import OffsetOutOfRange
from oncelog.client.fetching import FetchedBatches, Fetches, FetchSettings
from oncelog.client.offsets import list_offsets
from oncelog.client.values import OffsetSpec, TopicPartition
from oncelog.records import ControlType, TimestampType, decode_batch, read_control


class ConsumedRecord(NamedTuple):
    """One record. `control` is set, and `key` and `value` are the marker's bytes, for the end of a transaction."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    producer_id: int
    control: ControlType | None


@dataclass(slots=True)
class _Decoded:
    """The records of one answer, and where the partition goes on after them."""

    partition: TopicPartition
    records: Iterator[ConsumedRecord]
    next_offset: int


class ConsumerCore:
    """Positions, and answers that are partly handed out.

    `reset` says where to go on when a position is not in the log: at its start, at its end, or nowhere (an error).
    """

    def __init__(
        self, cluster: Cluster, settings: FetchSettings, *, reset: OffsetSpec | None, include_control: bool
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._reset = reset
        self._include_control = include_control
        self._fetches = Fetches(cluster, settings)
        self._positions: dict[TopicPartition, int] = {}
        self._decoded: deque[_Decoded] = deque()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._positions)

    def assign(self, wanted: Mapping[TopicPartition, int]) -> Conversation[None]:
        """Read these partitions and no others, from offsets or from where an OffsetSpec says.

        Raises BrokerRefused or RetriesExhausted.
        """
        for partition in self._fetches.partitions:
            self._fetches.stop(partition)
        self._positions.clear()
        self._decoded.clear()
        yield from self.seek(wanted)

    def seek(self, wanted: Mapping[TopicPartition, int]) -> Conversation[None]:
        """Go on elsewhere in some partitions. Raises BrokerRefused or RetriesExhausted."""
        specs = {partition: offset for partition, offset in wanted.items() if offset < 0}
        found = {}
        if specs:
            found = yield from list_offsets(self._cluster, specs, self._settings.isolation_level)
        for partition, offset in wanted.items():
            self._go(partition, found[partition].offset if partition in found else offset)

    def position(self, partition: TopicPartition) -> int:
        """The offset that `poll` goes on at."""
        return self._positions[partition]

    def poll(self, timeout_ms: float, records_max: int) -> Conversation[list[ConsumedRecord]]:
        """Records as soon as there are any, at most so many; none when none came in time.

        Raises OffsetOutOfRange, BrokerRefused or RetriesExhausted.
        """
        started_ms: float = yield Now()
        now_ms = started_ms
        while not (records := self._take(records_max)):
            left_ms = started_ms + timeout_ms - now_ms
            if left_ms < 0:
                break
            try:
                answers = yield from self._fetches.next(left_ms)
            except OffsetOutOfRange:
                if self._reset is None:
                    raise
                lost = self._positions.keys() - self._fetches.partitions
                yield from self.seek(dict.fromkeys(lost, self._reset))
            else:
                self._decoded.extend(map(self._decode, answers))
            now_ms = yield Now()
            if not self._positions:
                break
        return records

    def _go(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset
        self._decoded = deque(decoded for decoded in self._decoded if decoded.partition != partition)
        self._fetches.read(partition, offset)

    def _take(self, records_max: int) -> list[ConsumedRecord]:
        records: list[ConsumedRecord] = []
        while self._decoded and len(records) < records_max:
            decoded = self._decoded[0]
            taken = list(islice(decoded.records, records_max - len(records)))
            records += taken
            if taken:
                self._positions[decoded.partition] = taken[-1].offset + 1
            if len(records) < records_max:
                self._positions[decoded.partition] = decoded.next_offset
                self._decoded.popleft()
        return records

    def _decode(self, fetched: FetchedBatches) -> _Decoded:
        from_offset = max(self._positions.get(fetched.partition, 0), 0)
        return _Decoded(fetched.partition, self._records(fetched, from_offset), fetched.next_offset)

    def _records(self, fetched: FetchedBatches, from_offset: int) -> Iterator[ConsumedRecord]:
        for chunk, position, header in visible_batches(fetched):
            control = None
            if header.is_control:
                marker = read_control(chunk, position)
                if marker is None or not self._include_control:
                    continue
                control = marker.control
            for record in decode_batch(chunk, position):
                if record.offset >= from_offset:
                    yield ConsumedRecord(
                        *fetched.partition,
                        record.offset,
                        record.timestamp_ms,
                        header.timestamp_type,
                        record.key,
                        record.value,
                        record.headers,
                        header.producer_id,
                        control,
                    )
