"""The ordinary consumer without threads or tasks: partitions as records, from positions that the caller sets."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import NamedTuple

from oncelog.client.consumer.fetching import Fetches, FetchSettings
from oncelog.client.consumer.lag import count_records
from oncelog.client.consumer.offsets import OffsetReset, find_offsets, reset_offsets
from oncelog.client.consumer.readings import FetchedBatches, visible_batches
from oncelog.client.errors import CorruptRecords, IllegalState, LogTruncated, NoOffset, OffsetOutOfRange
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import Beside, Now, Wait
from oncelog.client.values import OffsetAndMetadata, OffsetSpec, TopicPartition
from oncelog.records import ControlType, TimestampType, decode_batch, read_control
from oncelog.wire import WireError

_SPECS = frozenset(OffsetSpec)


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
class _DecodedAnswer:
    """The records of one answer, and where the partition goes on after them."""

    partition: TopicPartition
    records: Iterator[ConsumedRecord]
    next_offset: int


class ConsumerCore:
    """Positions, and answers that are partly handed out.

    `reset` says where to go on when a position is not in the log.
    """

    def __init__(self, cluster: Cluster, settings: FetchSettings, *, reset: OffsetReset, include_control: bool) -> None:
        self._cluster = cluster
        self._settings = settings
        self._reset = reset
        self._include_control = include_control
        self._fetches = Fetches(cluster, settings)
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._lost: set[TopicPartition] = set()
        self._searches: list[Beside] = []
        self._decoded: deque[_DecodedAnswer] = deque()
        self._taken_from: dict[TopicPartition, int] = {}
        """The positions before the records that `poll` has taken and the caller has not received yet."""

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._positions)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(self._paused)

    async def assign(self, wanted: Mapping[TopicPartition, int]) -> None:
        """Read these partitions and no others, from offsets or from where an OffsetSpec says.

        Raises BrokerRefused or RetriesExhausted.
        """
        _require_places(wanted)
        self._drop(self.assignment)
        await self._go_to(wanted)

    async def seek(self, wanted: Mapping[TopicPartition, int]) -> None:
        """Go on elsewhere: at offsets, or where an OffsetSpec says. Raises BrokerRefused or RetriesExhausted."""
        self._require_assigned(wanted)
        _require_places(wanted)
        await self._go_to(wanted)

    async def seek_to_times(self, wanted: Mapping[TopicPartition, int]) -> None:
        """Go on at the first record that is as late as a time in ms, or at the end.

        Raises BrokerRefused or RetriesExhausted.
        """
        self._require_assigned(wanted)
        for partition, time_ms in wanted.items():
            if time_ms < 0:
                raise ValueError(f"the time for {partition} is {time_ms}: it is to be in ms since 1970, not below 0")
        await find_offsets(self._cluster, wanted, self._settings.isolation_level, self._go_to_all)

    def position(self, partition: TopicPartition) -> int:
        """The offset that `poll` goes on at. Raises NoOffset while that is not known."""
        self._require_assigned((partition,))
        if partition not in self._positions:
            raise NoOffset(f"where {partition} is to be read from is not known yet")
        return self._positions[partition]

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Every position that is known, as it is committed."""
        return {partition: OffsetAndMetadata(offset) for partition, offset in self._positions.items()}

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these until they are resumed."""
        partitions = frozenset(partitions)
        self._require_assigned(partitions)
        self._paused |= partitions
        for partition in partitions:
            self._fetches.pause(partition)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._paused.discard(partition)
            self._fetches.resume(partition)

    async def lag(self, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, int]:
        """The records before the reader, counted. Raises OffsetOutOfRange, NoOffset, BrokerRefused, RetriesExhausted."""
        wanted = self.assignment if partitions is None else partitions
        positions = {partition: self.position(partition) for partition in wanted}
        return await count_records(self._cluster, self._settings, positions)

    async def poll(self, timeout_ms: float, records_max: int) -> list[ConsumedRecord]:
        """Records as soon as there are any, at most so many; none when none came in time.

        The caller calls `mark_received` when it has them, or `take_back` where it is interrupted.
        Raises OffsetOutOfRange, NoOffset, BrokerRefused or RetriesExhausted, and what `_prepare` raises.
        """
        if records_max < 1:
            raise ValueError(f"records_max is {records_max}: at least 1 is to be handed out")
        started_ms = await Now()
        now_ms = started_ms
        until_ms = started_ms + timeout_ms
        is_over = False
        while True:
            await self._prepare(now_ms)
            await self._advance_searches()
            records = self._take(records_max)
            if records or is_over or not self._has_prospects():
                return records
            await self._fetch(min(until_ms - now_ms, self._wait_ms_max()))
            now_ms = await Now()
            is_over = now_ms >= until_ms

    def mark_received(self) -> None:
        """The caller has what `poll` has taken."""
        self._taken_from = {}

    def take_back(self) -> None:
        """Begin anew with what did not come to the caller. A signal's handler has raised, maybe amid the work on it."""
        for search in self._searches:
            search.close()
        self._searches.clear()
        for partition, position in list(self._positions.items()):
            self._go(partition, self._taken_from.get(partition, position))
        self._taken_from = {}

    async def _prepare(self, now_ms: float) -> None:
        """Do what is due before records are handed out. A consumer without a group has nothing to do."""

    def _has_prospects(self) -> bool:
        """True while a partition may bring records."""
        return bool(self._positions)

    def _wait_ms_max(self) -> float:
        """The time until `_prepare` is due again."""
        return float("inf")

    async def _fetch(self, timeout_ms: float) -> None:
        awaited = [pending for search in self._searches for pending in search.awaited]
        now_ms = await Now()
        timeout_ms = min([timeout_ms, *(max(0.0, search.until_ms - now_ms) for search in self._searches)])
        if not self._positions.keys() - self._paused - self._lost:
            await Wait(tuple(awaited), timeout_ms, until_woken=True)
            return
        try:
            answers = await self._fetches.next(timeout_ms, until_woken=True, beside=awaited)
        except LogTruncated as truncated:
            if self._reset is None:
                raise
            self._go_back(truncated)
        except OffsetOutOfRange:
            lost = self._positions.keys() - self._fetches.partitions - self._lost
            if self._reset is None:
                for partition in lost:
                    self._fetches.take_up_again(partition)  # so that the next poll says it again
                raise
            self._lost |= lost
            self._searches.append(Beside(self._reset_positions(self._reset, frozenset(lost))))
        else:
            self._decoded.extend(map(self._decode, answers))

    def _go_back(self, truncated: LogTruncated) -> None:
        """Go back to the offset where the logs part, or to the first record that was not handed out if that is lower."""
        partition = truncated.partition
        if partition in self._positions:
            self._go(partition, min(self._positions[partition], truncated.offset))

    async def _advance_searches(self) -> None:
        """Go on looking for where to read, of those partitions where that is not known.

        One search may begin another, which has to set out before anybody waits for it.
        """
        advanced: list[Beside] = []
        while ahead := [search for search in self._searches if search not in advanced]:
            for search in ahead:
                advanced.append(search)
                try:
                    is_over = await search.advance()
                except BaseException:
                    self._searches.remove(search)
                    search.close()
                    raise
                if is_over:
                    self._searches.remove(search)

    async def _reset_positions(self, reset: OffsetSpec | timedelta, partitions: frozenset[TopicPartition]) -> None:
        """Go to where reading begins, unless the caller has gone elsewhere meanwhile. What fails is tried again by a poll."""

        def place(found: Mapping[TopicPartition, int]) -> None:
            for partition in found.keys() & self._lost:
                self._go(partition, found[partition])

        try:
            await reset_offsets(self._cluster, partitions, reset, self._settings.isolation_level, place)
        except BaseException:
            for partition in partitions & self._lost:
                self._lost.discard(partition)
                self._fetches.take_up_again(partition)
            raise

    async def _go_to(self, wanted: Mapping[TopicPartition, int]) -> None:
        self._go_to_all({partition: offset for partition, offset in wanted.items() if offset >= 0})
        specs = {partition: offset for partition, offset in wanted.items() if offset < 0}
        await find_offsets(self._cluster, specs, self._settings.isolation_level, self._go_to_all)

    def _go_to_all(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            self._go(partition, offset)

    def _go(self, partition: TopicPartition, offset: int) -> None:
        self._lost.discard(partition)
        self._positions[partition] = offset
        self._decoded = deque(decoded for decoded in self._decoded if decoded.partition != partition)
        self._fetches.read(partition, offset)

    def _drop(self, partitions: frozenset[TopicPartition]) -> None:
        """Read these no longer."""
        for partition in partitions:
            self._fetches.stop(partition)
            self._lost.discard(partition)
        self.resume(partitions)
        self._decoded = deque(decoded for decoded in self._decoded if decoded.partition not in partitions)
        for partition in partitions:  # last: where this is interrupted, the next call finds them assigned
            self._positions.pop(partition, None)

    def _require_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        missing = sorted(set(partitions) - self.assignment)
        if missing:
            raise IllegalState(f"{', '.join(map(str, missing))} is not assigned to this consumer")

    def _take(self, records_max: int) -> list[ConsumedRecord]:
        """The next records, with the positions behind them."""
        self._taken_from = dict(self._positions) if self._decoded else {}
        try:
            return self._taken(records_max)
        except CorruptRecords:
            self._taken_from = {}
            raise

    def _taken(self, records_max: int) -> list[ConsumedRecord]:
        records: list[ConsumedRecord] = []
        kept: deque[_DecodedAnswer] = deque()
        corrupt: CorruptRecords | None = None
        while self._decoded and len(records) < records_max:
            decoded = self._decoded[0]
            if decoded.partition in self._paused:
                kept.append(self._decoded.popleft())
                continue
            before = len(records)
            try:
                records.extend(islice(decoded.records, records_max - before))
            except WireError as error:
                # What came before it is whole and is handed out first; the next poll meets it again.
                corrupt = CorruptRecords(f"reading {decoded.partition}: {error}")
                corrupt.__cause__ = error
            if len(records) > before:
                self._positions[decoded.partition] = records[-1].offset + 1
            if corrupt is not None:
                self._go(decoded.partition, self._positions[decoded.partition])
                break
            if len(records) < records_max:
                self._positions[decoded.partition] = decoded.next_offset
                self._decoded.popleft()
        self._decoded.extendleft(reversed(kept))
        if corrupt is not None and not records:
            raise corrupt
        return records

    def _decode(self, fetched: FetchedBatches) -> _DecodedAnswer:
        from_offset = max(self._positions.get(fetched.partition, 0), 0)
        return _DecodedAnswer(fetched.partition, self._records(fetched, from_offset), fetched.next_offset)

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


def _require_places(wanted: Mapping[TopicPartition, int]) -> None:
    """Raise ValueError for what is neither an offset nor an OffsetSpec. Java's consumer refuses to seek there, too."""
    for partition, offset in wanted.items():
        if offset < 0 and offset not in _SPECS:
            raise ValueError(f"the offset for {partition} is {offset}: it is to be an OffsetSpec, or not below 0")
