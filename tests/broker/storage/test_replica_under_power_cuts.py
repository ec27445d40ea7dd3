"""A follower's log through everything that may be under way at once, and power cuts amid it.

Syncs take their time and end in any order. Meanwhile the leader changes and the log is cut off or begins again, the write-ahead log
goes on in its next file, checkpoints are written, and the power fails. The log opens each time, with what it was said to have.

The first seed is said at the end. ONCELOG_SEED is one that has been, to run them again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from random import Random

import pytest

from harness.broker_in_memory import SteppedDisk
from harness.replica_on_memory_disk import ReplicaOnMemoryDisk
from oncelog.broker.storage.truncating import begin_logs_again, truncate_logs
from oncelog.coordination import Task, start
from oncelog.log import Followed, LogConfig
from oncelog.records import batches

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200, file_delete_delay_ms=0)
FIRST = int(os.environ.get("ONCELOG_SEED") or secrets.randbelow(1_000_000)) * 10_000
GROUPS, SEEDS = 8, 2_000 if os.environ.get("ONCELOG_WHOLE") == "1" else 50
STEPS = 80


class Leaders:
    """One after the other: each has a part of what the one before had, and goes on under an epoch of its own."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._epoch = -1
        self.replica = ReplicaOnMemoryDisk(CONFIG)
        self.elect(0)

    def elect(self, common: int) -> int:
        """Another leader, which has what the one before had below about `common`; return where their logs part."""
        before, begin = self.replica, self.replica.log.log_start_offset
        self._epoch += 1
        self.replica = ReplicaOnMemoryDisk(CONFIG)
        if begin:
            self.replica.begin_again_at(begin)
        while self.replica.log.log_end_offset < common:
            self.replica.log.append_as_follower(before.read(self.replica.log.log_end_offset, 1))
        parted = self.replica.log.log_end_offset
        self.replica.log.lead(self._epoch)
        self.produce()
        return parted

    def produce(self) -> None:
        for _ in range(self._random.randrange(1, 12)):
            self.replica.produce(b"%d " % self._epoch * self._random.randrange(1, 120))

    def begin_again(self) -> int:
        """The log of a leader that has deleted all that there was, and more."""
        begin = self.replica.log.log_end_offset + self._random.randrange(50)
        self._epoch += 1
        self.replica = ReplicaOnMemoryDisk(CONFIG)
        self.replica.begin_again_at(begin)
        self.replica.log.lead(self._epoch)
        self.produce()
        return begin


class Trial:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.leaders = Leaders(self.random)
        self.disk = SteppedDisk(seed)
        self.on = ReplicaOnMemoryDisk(CONFIG, disk=self.disk, decides=self.random.random() < 0.5)
        self.promised = b""
        """What is durable: it was made so, and nobody has begun to cut it off."""
        self.parted = 0
        """Up to here the leader's log and this one are the same."""
        self.cut: Task[None] | None = None
        self.cuts = 0

    def run(self) -> None:
        actions: list[tuple[Callable[[], None], int]] = [
            (self.follow, 10),
            (self.sync, 6),
            (self.step, 16),
            (self.elect, 2),
            (self.begin_again, 1),
            (self.retire, 2),
            (self.write_checkpoints, 3),
            (self.advance, 3),
            (self.fail, 1),
        ]
        choices, weights = zip(*actions, strict=True)
        for _ in range(STEPS):
            self.random.choices(choices, weights)[0]()
        self.end_cut()
        self.follow_all()
        self.sync()
        self.take_all_steps()
        self.crash()
        self.end_cut()
        self.follow_all()
        assert self.content == self.leaders.replica.read_all()

    @property
    def content(self) -> bytes:
        return self.on.read_all()

    @property
    def is_cutting(self) -> bool:
        return self.cut is not None and not self.cut.is_resolved

    def follow(self) -> None:
        if self.is_cutting:
            return
        end = self.on.log.log_end_offset
        if end < self.leaders.replica.log.log_end_offset:
            found = self.leaders.replica.read(end, self.random.randrange(1, 900))
            assert isinstance(self.on.log.append_as_follower(found), Followed)

    def follow_all(self) -> None:
        while self.on.log.log_end_offset < self.leaders.replica.log.log_end_offset:
            self.follow()

    def sync(self) -> None:
        content, cuts, is_cutting = self.content, self.cuts, self.is_cutting

        def is_durable(is_kept: bool) -> None:
            assert is_kept
            if cuts == self.cuts and not is_cutting and len(content) > len(self.promised):
                self.promised = content

        self.on.durability.make_durable([self.on.log]).then(is_durable)

    def step(self) -> None:
        for _ in range(self.random.randrange(4)):
            self.disk.take_any_step(self.random)

    def take_all_steps(self) -> None:
        while self.disk.take_any_step(self.random):
            pass

    def elect(self) -> None:
        """The log that the leader has not goes. Below the high watermark every leader has it."""
        if self.is_cutting:
            return
        log, before = self.on.log, self.leaders.replica.log
        low = max(log.high_watermark, before.log_start_offset)
        self.parted = self.leaders.elect(self.random.randint(low, max(low, before.log_end_offset)))
        self.cut_off()

    def cut_off(self) -> None:
        log, begin = self.on.log, self.leaders.replica.log.log_start_offset
        self.cuts += 1
        if log.log_end_offset < begin or log.log_start_offset < begin:
            self.promised = b""
            self.parted = begin
            self.cut = start(begin_logs_again(self.on.durability, self.on, {log: begin}))
        else:
            self.promised = below(self.promised, self.parted)
            self.cut = start(truncate_logs(self.on.durability, self.on, {log: self.parted}))

    def begin_again(self) -> None:
        if not self.is_cutting:
            self.parted = self.leaders.begin_again()
            self.cut_off()

    def end_cut(self) -> None:
        while self.is_cutting:
            assert self.disk.steps, "it waits for nothing"
            self.step()

    def retire(self) -> None:
        self.on.durability.retire()

    def write_checkpoints(self) -> None:
        self.on.write()

    def advance(self) -> None:
        """The leader has more, and says that what this log has made durable is on all that are in sync."""
        self.leaders.produce()
        if not self.is_cutting and self.leaders.replica.read_all().startswith(self.promised):
            end = max((one.next_offset for _, one in batches(self.promised)), default=0)
            if end > self.on.log.high_watermark:
                self.on.log.advance_high_watermark(end)

    def fail(self) -> None:
        if self.random.random() < 0.7:
            self.crash()
        else:
            self.kill()

    def crash(self) -> None:
        promised = self.promised
        self.stop()
        self.on.crash()
        content = self.content
        assert content.startswith(promised)
        self.promised = content
        self.go_on()

    def kill(self) -> None:
        content, was_cutting = self.content, self.is_cutting
        self.stop()
        self.on.kill()
        assert was_cutting or self.content == content
        self.go_on()

    def stop(self) -> None:
        """The process is gone, and what it waited for."""
        if self.cut is not None:
            self.cut.end()
            self.cut = None
        self.disk.steps.clear()

    def go_on(self) -> None:
        """The leader tells where the log parts from its own."""
        self.cuts += 1
        mine, its, begin = self.content, self.leaders.replica.read_all(), self.leaders.replica.log.log_start_offset
        if self.on.log.log_start_offset != begin or not its.startswith(mine):
            self.parted = parting(mine, its, begin)
            self.cut_off()


def below(content: bytes, offset: int) -> bytes:
    """The batches below the offset."""
    end = 0
    for position, one in batches(content):
        if one.next_offset > offset:
            break
        end = position + one.size_bytes
    return content[:end]


def parting(mine: bytes, its: bytes, begin: int) -> int:
    """The offset from which on the two have not the same batches."""
    parted = begin
    for position, one in batches(mine):
        if mine[position : position + one.size_bytes] != its[position : position + one.size_bytes]:
            break
        parted = one.next_offset
    return parted


@pytest.mark.parametrize("group", range(GROUPS))
def test_log_opens_after_every_power_cut_with_all_that_was_durable(group: int, summary: Callable[[str], None]) -> None:
    for seed in range(FIRST + group * SEEDS, FIRST + (group + 1) * SEEDS):
        try:
            Trial(seed).run()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    if group == 0:
        summary(f"replicas of the seeds from {FIRST} on; again: ONCELOG_SEED={FIRST // 10_000}")
