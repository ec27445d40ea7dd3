"""Whatever is appended and whenever the power goes: what was durable is there, and the state is that of what is there."""

from __future__ import annotations

from dataclasses import dataclass
from struct import iter_unpack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.log_on_memory_disk import DIRECTORY, LogOnMemoryDisk
from oncelog.environment import Syncable
from oncelog.log import AbortedTransaction, Appended, DamagedLogError, LogConfig, SyncPoint, open_log
from oncelog.log.names import LOG, OFFSET_INDEX, TRANSACTION_INDEX, offset_name
from oncelog.records import ControlType, batches, read_control

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=200, segment_index_bytes=200)

State = tuple[Any, ...]


@dataclass
class Producer:
    """What the test's producer knows of itself."""

    producer_id: int
    epoch: int = 0
    sequence: int = 0


class History:
    """A log, every batch it ever took, and its state after each of them."""

    def __init__(self, seed: int) -> None:
        self.on = LogOnMemoryDisk(CONFIG, seed)
        self.producers = [Producer(1), Producer(2), Producer(3)]
        self.batches: dict[int, bytes] = {}
        self.states: dict[int, State] = {0: self.state()}
        self.synced = 0
        self.begun: tuple[tuple[Syncable, ...], SyncPoint] | None = None

    def state(self) -> State:
        log = self.on.log
        return (
            log.log_end_offset,
            log.last_stable_offset,
            sorted(log.producers.active()),
            log.producers.open_transactions(),
            log.aborted_transactions(0, log.log_end_offset),
        )

    def note(self) -> None:
        """Remember the batch that was appended last, as it is in the log."""
        log = self.on.log
        last = max(self.batches, default=-1)
        start = 0 if last < 0 else max(self.states)
        if log.log_end_offset > start:
            self.batches[start] = bytes(log.read(start, 1, log.log_end_offset).data)
            self.states[log.log_end_offset] = self.state()

    def produce(self, slot: int, count: int, size_bytes: int, *, transactional: bool) -> None:
        producer = self.producers[slot]
        is_open = any(one.producer_id == producer.producer_id for one in self.on.log.producers.open_transactions())
        batch = self.on.batch(
            [bytes(size_bytes)] * count,
            producer=(producer.producer_id, producer.epoch),
            sequence=producer.sequence,
            transactional=transactional or is_open,
        )
        result = self.on.append(batch)
        assert isinstance(result, Appended), result
        self.note()
        again = self.on.append(batch)
        assert isinstance(again, Appended), again
        assert again.duplicate
        assert again.base_offset == result.base_offset
        producer.sequence += count

    def produce_plain(self, size_bytes: int) -> None:
        self.on.produce(bytes(size_bytes))
        self.note()

    def mark(self, slot: int, control: ControlType, transaction_version: int) -> None:
        producer = self.producers[slot]
        if transaction_version == 2:
            producer.epoch += 1
            producer.sequence = 0
        result = self.on.mark(control, (producer.producer_id, producer.epoch), transaction_version=transaction_version)
        assert isinstance(result, Appended), result
        self.note()

    def begin_sync(self) -> None:
        if self.begun is None:
            self.begun = self.on.begin_sync()

    def end_sync(self) -> None:
        if self.begun is not None:
            self.on.end_sync(self.begun)
            self.synced = max(self.synced, self.begun[1].log_end_offset)
            self.begun = None
            assert self.on.log.durability.recovery_point == self.synced

    def write_checkpoint(self) -> None:
        self.on.checkpoint = self.on.log.durability.recovery_point

    def restart(self) -> None:
        self.on.restart()
        self.synced = self.on.log.log_end_offset
        self.reopened()
        assert self.on.log.recovery.bytes_read == 0
        assert self.on.log.recovery.was_clean

    def crash(self, *, says_clean: bool) -> None:
        self.on.crash(says_clean=says_clean)
        assert self.on.log.log_end_offset >= self.synced
        self.reopened()

    def kill(self) -> None:
        before = self.on.log.log_end_offset
        self.on.kill()
        assert self.on.log.log_end_offset == before
        self.reopened()

    def truncate(self, share: float) -> None:
        ends = sorted(self.states)
        end = ends[int(share * (len(ends) - 1))]
        self.on.log.truncate_to(end)
        self.on.checkpoint = min(self.on.checkpoint, end)
        self.synced = min(self.synced, end)
        self.begun = None
        self.came_back_to(end)
        # Until then a power cut may bring back what was cut off.
        self.begin_sync()
        self.end_sync()

    def reopened(self) -> None:
        self.begun = None
        self.synced = max(self.synced, self.on.log.durability.recovery_point)
        self.came_back_to(self.on.log.log_end_offset)

    def came_back_to(self, end: int) -> None:
        """The log ends at a place where it ended before, with the state and the bytes it had then."""
        assert end in self.states, "the log ends between two batches that were appended"
        assert self.state() == self.states[end]
        self.states = {offset: state for offset, state in self.states.items() if offset <= end}
        self.batches = {offset: batch for offset, batch in self.batches.items() if offset < end}
        for producer in self.producers:
            self.take_up(producer)
        self.check_reads()

    def take_up(self, producer: Producer) -> None:
        found = [one for one in self.on.log.producers.active() if one.producer_id == producer.producer_id]
        producer.epoch = found[0].producer_epoch if found else producer.epoch
        producer.sequence = found[0].last_sequence + 1 if found else 0

    def check_reads(self) -> None:
        written = b"".join(self.batches[offset] for offset in sorted(self.batches))
        assert self.on.read_all() == written
        assert self.on.read_all(size_bytes_max=700) == written
        log = self.on.log
        for offset, batch in self.batches.items():
            part = log.read(offset, 500, log.log_end_offset)
            assert bytes(part.data).startswith(batch)
            assert part.next_offset in self.states
            below = log.read(offset, 1 << 20, part.next_offset)
            assert below.next_offset == part.next_offset or len(below.data) > 500


SLOTS = st.integers(0, 2)
OPERATIONS = st.one_of(
    st.builds(
        lambda slot, count, size, transactional: (
            lambda history: history.produce(slot, count, size, transactional=transactional)
        ),
        SLOTS,
        st.integers(1, 3),
        st.integers(0, 400),
        st.booleans(),
    ),
    st.builds(lambda size: lambda history: history.produce_plain(size), st.integers(0, 600)),
    st.builds(
        lambda slot, control, version: lambda history: history.mark(slot, control, version),
        SLOTS,
        st.sampled_from(ControlType),
        st.integers(1, 2),
    ),
    st.just(History.begin_sync),
    st.just(History.end_sync),
    st.just(History.write_checkpoint),
    st.just(History.restart),
    st.builds(lambda says_clean: lambda history: history.crash(says_clean=says_clean), st.booleans()),
    st.just(History.kill),
    st.builds(lambda share: lambda history: history.truncate(share), st.floats(0, 1)),
)


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32), operations=st.lists(OPERATIONS, max_size=60))
def test_a_log_opened_again_is_the_log_that_was_there(seed: int, operations: list[Any]) -> None:
    """KIP-98: the state of a partition is a function of its log. Nothing durable is lost, nothing torn is read."""
    history = History(seed)
    for operation in operations:
        operation(history)
    history.check_reads()
    history.crash(says_clean=False)
    history.restart()


@pytest.mark.parametrize("count", [1, 2])
def test_batch_that_a_crash_tore_does_not_come_back_with_the_next_one(count: int) -> None:
    """A second crash must not leave the first batch's sectors among those of the batch that was written in its place."""
    for seed in range(480, 500):
        history = History(seed)
        history.produce(0, 1, 58, transactional=False)
        history.crash(says_clean=False)
        history.produce(0, count, 26 if count > 1 else 59, transactional=False)
        history.crash(says_clean=False)


def test_index_entries_of_what_a_start_cut_off_do_not_come_back() -> None:
    """In a compacted log, which has gaps, they would say that its end is lost."""
    for seed in range(20):
        on = LogOnMemoryDisk(LogConfig(index_interval_bytes=0, is_compacted=True), seed)
        for _ in range(10):
            on.produce(b"value")
        on.log.close()
        on.checkpoint, size_bytes = 9, on.log.size_bytes
        on.disk.damage(f"{DIRECTORY}/{offset_name(0, LOG)}", size_bytes - 1, b"\x7f")
        on.open(was_clean=False)
        assert on.log.log_end_offset == 9
        on.disk.crash()
        index = on.disk.read_file(f"{DIRECTORY}/{offset_name(0, OFFSET_INDEX)}")
        assert max(offset for offset, _ in iter_unpack(">ii", index)) < 9, seed


@pytest.mark.parametrize("is_rolled", [False, True])
def test_indexes_that_are_lost_are_made_anew_whatever_a_power_cut_tore_behind_them(is_rolled: bool) -> None:
    """What the transaction index has to hold is read from the batches up to where it was durable, and no further."""
    on = LogOnMemoryDisk(LogConfig(index_interval_bytes=0, segment_bytes=1000 if is_rolled else 1 << 20))
    producer = (1, 0)
    on.produce(b"aborted", producer=producer, sequence=0, transactional=True)
    on.mark(ControlType.ABORT, producer)
    while is_rolled and len(on.disk.list_directory(DIRECTORY)) < 5:
        on.produce(bytes(300))
    on.sync()
    on.aborted, durable = on.log.digest(), on.log.log_end_offset
    on.produce(b"not durable")
    base_offset = on.log.durability.sync_point().segment_base_offset
    path, size_bytes = f"{DIRECTORY}/{offset_name(base_offset, LOG)}", on.log.durability.sync_point().segment_size_bytes
    on.disk.kill()
    on.disk.damage(path, size_bytes - 1, b"\x7f")
    for name in on.disk.list_directory(DIRECTORY):
        if name.endswith((OFFSET_INDEX, TRANSACTION_INDEX)):
            on.disk.remove(f"{DIRECTORY}/{name}")
    on.open(was_clean=False)
    assert on.log.log_end_offset == durable
    assert [one[:3] for one in on.log.aborted_transactions(0, durable)] == [(1, 0, 1)]


def aborted_by_definition(data: bytes) -> list[tuple[int, int, int]]:
    """Transactions with records that end in an ABORT, from the batches alone: (producer, first offset, marker)."""
    opened: dict[int, int] = {}
    aborted = []
    for position, header in batches(data):
        if header.is_control:
            marker = read_control(data, position)
            first = opened.pop(header.producer_id, None)
            if first is not None and marker is not None and marker.control is ControlType.ABORT:
                aborted.append((header.producer_id, first, header.base_offset))
        elif header.is_transactional:
            opened.setdefault(header.producer_id, header.base_offset)
    return sorted(aborted)


@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32),
    operations=st.lists(OPERATIONS, max_size=60),
    window=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_aborted_transactions_are_those_that_touch_the_range(
    seed: int, operations: list[Any], window: tuple[float, float]
) -> None:
    history = History(seed)
    for operation in operations:
        operation(history)
    log = history.on.log
    low, high = sorted(int(share * log.last_stable_offset) for share in window)
    expected = [
        (producer_id, first, marker)
        for producer_id, first, marker in aborted_by_definition(history.on.read_all())
        if marker >= low and first < high
    ]
    found = log.aborted_transactions(low, high)

    def plain(aborted: AbortedTransaction) -> tuple[int, int, int]:
        return aborted.producer_id, aborted.first_offset, aborted.last_offset

    assert sorted(map(plain, found)) == expected
    assert [one.first_offset for one in found] == sorted(one.first_offset for one in found)


def test_batches_that_are_read_in_several_pieces_are_whole() -> None:
    on = LogOnMemoryDisk()
    for _ in range(3):
        on.produce(bytes(600_000))
    on.sync()
    on.kill()
    assert on.log.log_end_offset == 3
    assert on.log.files.growth_bytes == 0


def test_file_that_lost_its_end_and_is_vouched_for_by_the_write_ahead_log_is_damaged() -> None:
    """It ends where a batch does, and the next file is whole: nobody may take what is between for something never written."""
    on = LogOnMemoryDisk(LogConfig(segment_bytes=1000))
    for _ in range(10):
        on.produce(bytes(200))
    on.disk.kill()
    first, second, *_ = (segment.base_offset for segment in on.log.segments)
    path = f"{DIRECTORY}/{offset_name(first, LOG)}"
    *_, (last, header) = batches(on.disk.read_file(path))
    assert header.next_offset == second
    on.disk.open(path).truncate(last)
    before = {one: on.disk.read_file(one) for one in on.disk.paths()}
    with pytest.raises(DamagedLogError, match=f"is damaged at offset {second - 1}"):
        open_log(
            on.disk, on.clock, DIRECTORY, "orders", 0, on.config, was_clean=False, recovery_point=0, durable_end=10
        )
    assert {one: on.disk.read_file(one) for one in on.disk.paths()} == before, "nothing is changed"


def test_entry_of_the_offset_index_that_points_beside_its_batch_is_not_believed_after_a_kill() -> None:
    on = LogOnMemoryDisk(LogConfig(index_interval_bytes=300))
    for _ in range(30):
        on.produce(bytes(200))
    on.log.files.take_snapshot()
    on.sync()
    data = on.read_all()
    path = f"{DIRECTORY}/{offset_name(0, OFFSET_INDEX)}"
    content = bytearray(on.disk.read_file(path))
    for entry in range(7, len(content), 8):
        content[entry] ^= 1
    on.disk.damage(path, 0, bytes(content))
    on.kill()
    assert on.read_all() == data
