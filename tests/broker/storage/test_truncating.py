"""A log that is cut off while the broker runs is after a power cut what it was, or what it was cut to, and goes on from there."""

from __future__ import annotations

import itertools
from random import Random
from uuid import UUID

import pytest

from harness.broker_in_memory import SteppedDisk
from harness.memory_disk import CuttingDisk, PowerCut
from harness.replica_on_memory_disk import ReplicaOnMemoryDisk
from oncelog.broker.storage.truncating import truncate_logs
from oncelog.coordination import start
from oncelog.log import Followed, LogConfig, open_log
from oncelog.records import ControlType, Record, build_batch, check_batch

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200, file_delete_delay_ms=0)


def replica(seed: int, *, decides: bool = False) -> tuple[ReplicaOnMemoryDisk, CuttingDisk]:
    disk = CuttingDisk(seed)
    return ReplicaOnMemoryDisk(CONFIG, disk=disk, decides=decides), disk


def history(
    epoch: int, base: ReplicaOnMemoryDisk | None = None, common: int = 0, count: int = 30
) -> ReplicaOnMemoryDisk:
    """A leader's log: so many records in common with another one's, and then its own."""
    on = ReplicaOnMemoryDisk(CONFIG)
    if base is not None:
        while on.log.log_end_offset < common:
            batch = base.read(on.log.log_end_offset, 1)
            on.log.append_as_follower(batch)
    on.log.lead(epoch)
    for number in range(count):
        if number % 3 == 2:
            on.produce(b"t" * 40, producer=(epoch + 1, 0), sequence=number // 3, transactional=True)
            on.mark(ControlType(number % 2), (epoch + 1, 0))
        on.produce(b"%d of %d " % (number, epoch) * 10)
    return on


def follow_in_parts(
    on: ReplicaOnMemoryDisk, leader: ReplicaOnMemoryDisk, random: Random, stop: int | None = None
) -> None:
    """Fetch, and now and then sync, by the write-ahead log or in place."""
    while on.log.log_end_offset < (leader.log.log_end_offset if stop is None else stop):
        assert isinstance(
            on.log.append_as_follower(leader.read(on.log.log_end_offset, random.randrange(400))), Followed
        )
        if random.random() < 0.5:
            on.sync()


def take_steps(disk: SteppedDisk, random: Random, count: int | None = None) -> None:
    """Let syncs end, in any order: so many of them, or all that there are."""
    for _ in itertools.count() if count is None else range(count):
        if not disk.take_any_step(random):
            return


def is_prefix(on: ReplicaOnMemoryDisk, leader: ReplicaOnMemoryDisk) -> bool:
    return leader.read_all().startswith(on.read_all())


@pytest.mark.parametrize("decides", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_power_cut_at_any_step_of_a_truncation_leaves_the_old_log_or_the_cut_one(seed: int, *, decides: bool) -> None:
    old = history(0)
    new = history(1, old, common=12)
    stop = stops = 0
    while stops == stop:
        random = Random(seed)
        on, disk = replica(seed * 1000 + stop, decides=decides)
        follow_in_parts(on, old, random)
        on.log.advance_high_watermark(12)
        if random.random() < 0.5:
            on.write()
        disk.changes_left = stop
        try:
            on.truncate_to(12)
            follow_in_parts(on, new, random)
            on.sync()
        except PowerCut:
            stops += 1
        disk.changes_left = None
        if random.random() < 0.7:
            on.crash()
        else:
            on.kill()
        assert is_prefix(on, old) or is_prefix(on, new), stop
        assert on.log.log_end_offset >= 12, stop
        # What it may have been left with is cut off again, and it goes on.
        on.truncate_to(12)
        follow_in_parts(on, new, random)
        on.sync()
        on.crash()
        assert on.read_all() == new.read_all(), stop
        assert on.log.epoch_end_offset(0) == (0, 12), stop
        stop += 1
    assert stops > 20


@pytest.mark.parametrize("seed", range(30))
def test_write_ahead_log_puts_back_nothing_of_what_was_cut_off(seed: int) -> None:
    random = Random(seed)
    old = history(0)
    new = history(1, old, common=12)
    on, _ = replica(seed)
    follow_in_parts(on, old, random, 20)
    on.sync()
    follow_in_parts(on, old, random)
    on.sync()
    on.truncate_to(12)
    follow_in_parts(on, new, random)
    on.sync()
    end = on.log.log_end_offset
    on.crash()
    assert on.log.log_end_offset == end
    assert on.read_all() == new.read_all()


def test_sync_that_began_before_a_truncation_says_nothing_of_what_came_after_it() -> None:
    old = history(0)
    new = history(1, old, common=12)
    on, _ = replica(0)
    on.follow(old)
    point = on.log.durability.sync_point()
    on.truncate_to(12)
    on.follow(new)
    on.log.durability.synced_up_to(point)
    on.log.durability.journaled_up_to(point)
    assert on.log.durability.recovery_point <= 12
    assert not on.log.durability.is_complete


@pytest.mark.parametrize("seed", range(60))
def test_sync_under_way_when_a_truncation_begins_vouches_for_nothing_that_is_cut_off(seed: int) -> None:
    """It is over later, and the write-ahead log is said by then what of a log of decisions is not to be cut back."""
    random = Random(seed)
    old = history(0)
    disk = SteppedDisk(seed)
    on = ReplicaOnMemoryDisk(CONFIG, disk=disk, decides=True)
    on.follow(old)
    synced = on.durability.make_durable([on.log])
    take_steps(disk, random, random.randrange(len(disk.steps)))
    cut = start(truncate_logs(on.durability, on, {on.log: 12}))
    if random.random() < 0.5:
        again = on.durability.make_durable([on.log])
        take_steps(disk, random)
        assert again.is_resolved
    is_cut_short = random.random() < 0.5
    take_steps(disk, random, random.randrange(10) if is_cut_short else None)
    assert is_cut_short or (synced.is_resolved and cut.is_resolved)
    cut.end()
    on.crash()
    assert on.log.log_end_offset == 12 or is_cut_short
    assert is_prefix(on, old)


def test_file_of_the_write_ahead_log_that_comes_next_vouches_for_nothing_that_was_cut_off() -> None:
    """A log of decisions is vouched for again when the file that did so goes, whoever made it go."""
    old = history(0)
    on, disk = replica(0, decides=True)
    on.follow(old)
    on.sync()
    other = open_log(
        disk, on.clock, "/data/other-0", "other", 0, CONFIG, was_clean=False, recovery_point=0, topic_id=UUID(int=8)
    )
    batch = build_batch([Record(None, b"x")])
    for _ in range(2):
        other.append(batch, check_batch(batch))
        assert on.durability.make_durable([other]).is_resolved
    on.truncate_to(12)
    assert on.durability.retire().is_resolved
    on.crash()
    assert on.log.log_end_offset == 12


@pytest.mark.parametrize("begin", [500, 3])
@pytest.mark.parametrize("seed", range(2))
def test_power_cut_at_any_step_of_beginning_again_leaves_a_log_that_can_begin_again(seed: int, begin: int) -> None:
    old = history(0)
    leader = ReplicaOnMemoryDisk(CONFIG)
    leader.begin_again_at(begin)
    leader.log.lead(5)
    for _ in range(10):
        leader.produce(bytes(100))
    stop = stops = 0
    while stops == stop:
        random = Random(seed)
        on, disk = replica(seed * 1000 + stop)
        follow_in_parts(on, old, random)
        on.log.advance_high_watermark(old.log.log_end_offset)
        on.log.advance_log_start(20)
        on.write()
        on.log.retention.delete_left(20)
        disk.changes_left = stop
        try:
            on.begin_again_at(begin)
            follow_in_parts(on, leader, random)
            on.sync()
        except PowerCut:
            stops += 1
        disk.changes_left = None
        on.crash()
        assert leader.read_all().startswith(on.read_all()) or on.read_all() in old.read_all(), stop
        on.begin_again_at(begin)
        follow_in_parts(on, leader, random)
        on.sync()
        on.crash()
        assert on.read_all() == leader.read_all(), stop
        assert on.log.newest_epoch == 5
        assert on.log.epoch_end_offset(0) == (0, begin)
        stop += 1
    assert stops > 20


def test_offset_below_the_first_segment_begins_the_log_again_there() -> None:
    on, _ = replica(0)
    on.begin_again_at(100)
    leader = ReplicaOnMemoryDisk(CONFIG)
    leader.begin_again_at(100)
    leader.log.lead(1)
    leader.produce(b"x")
    on.follow(leader)
    on.truncate_to(40)
    assert (on.log.log_start_offset, on.log.log_end_offset) == (40, 40)
