"""A power cut takes a future from a log and leaves some of its files; the log goes on past where it was, and the power goes again.

What is left of a future that is lost must never count as what the log has become since.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from harness.log_on_memory_disk import DIRECTORY, LogOnMemoryDisk
from harness.memory_disk import MemoryDisk
from oncelog.log import LogConfig
from oncelog.log.names import LOG
from oncelog.records import ControlType, batches

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=100)
Files = dict[str, bytes]
State = tuple[Any, ...]


class Life:
    """A log, and its state after each batch."""

    def __init__(self) -> None:
        self.on = LogOnMemoryDisk(CONFIG)
        self.states: dict[int, State] = {}
        self.sequences: dict[int, int] = {}
        self.note()

    def state(self) -> State:
        log = self.on.log
        return (
            sorted(log.producers.active()),
            sorted(log.producers.open_transactions()),
            log.last_stable_offset,
            log.aborted_transactions(0, log.log_end_offset),
            [log.epoch_end_offset(epoch) for epoch in range(3)],
            self.on.read_all(),
        )

    def note(self) -> None:
        self.states[self.on.log.log_end_offset] = self.state()

    def write(self, value: bytes, count: int, first_producer: int) -> None:
        """Transactions of several producers, some aborted, some open."""
        for number in range(count):
            producer_id = first_producer + number % 3
            sequence = self.sequences.get(producer_id, 0)
            self.on.produce(value * (1 + number % 3), producer=(producer_id, 0), sequence=sequence, transactional=True)
            self.sequences[producer_id] = sequence + 1
            self.note()
            if number % 4 == 2:
                self.on.mark(ControlType.ABORT if number % 8 == 2 else ControlType.COMMIT, (producer_id, 0))
                self.note()

    def sync(self) -> None:
        """As a checkpoint does it."""
        self.on.log.files.take_snapshot()
        self.on.sync()


def files(disk: MemoryDisk) -> Files:
    return {path: disk.read_file(path) for path in disk.paths()}


@cache
def first_life() -> tuple[Life, Files, Files]:
    """A log, its files at the checkpoint, and at the end of a future that nobody was told to count on."""
    life = Life()
    life.write(b"kept" * 10, 9, 1)
    life.sync()
    durable = files(life.on.disk)
    life.on.log.lead(1)
    life.write(b"lost" * 10, 14, 3)
    life.on.log.files.take_snapshot()
    for file in life.on.log.durability.unsynced_files():
        file.sync()
    return life, durable, files(life.on.disk)


def survivors() -> Iterator[tuple[str, Files]]:
    """Which of the files a power cut leaves as they were at last: each alone, and all but the end of the log, wherever that is."""
    _, durable, future = first_life()
    changed = [path for path in sorted(future) if future[path] != durable.get(path)]
    for path in changed:
        if not path.endswith(LOG):
            yield f"alone {path.rpartition('/')[2]}", durable | {path: future[path]}
    logs = [path for path in changed if path.endswith(LOG)]
    for slot, path in enumerate(logs):
        kept = {name: data for name, data in future.items() if name not in logs[slot:] or name in durable}
        for position, _ in batches(future[path]):
            if position >= len(durable.get(path, b"")):
                yield (
                    f"all but the log from {path.rpartition('/')[2]}, {position}",
                    kept | {path: future[path][:position]},
                )


def on_disk(before: LogOnMemoryDisk, disk: MemoryDisk) -> LogOnMemoryDisk:
    """What opens the log on a disk, and knows what the checkpoint says."""
    on = LogOnMemoryDisk(CONFIG)
    on.clock, on.disk, on.checkpoint = before.clock, disk, before.checkpoint
    return on


def second_life(left: Files) -> Life:
    """The log on these files, which has gone on past where it was before."""
    first, _, _ = first_life()
    life = Life()
    life.on = on = on_disk(first.on, MemoryDisk(0, first.on.clock.now_ms))
    on.disk.make_directory(DIRECTORY)
    for path, data in left.items():
        on.disk.replace_file(path, data)
    on.open(was_clean=False)
    end = on.log.log_end_offset
    assert end >= on.checkpoint
    life.states = {offset: state for offset, state in first.states.items() if offset <= end}
    assert life.state()[0] == life.states[end][0]
    assert life.state()[-1] == life.states[end][-1]
    life.sequences = {one.producer_id: one.last_sequence + 1 for one in on.log.producers.active()}
    on.log.lead(2)
    return life


def go_on(life: Life, end: int) -> Iterator[None]:
    """Write up to there or beyond, one step each batch; some are synced, as a flush does it."""
    log = life.on.log
    while log.log_end_offset < end:
        life.write(b"new" * 17, 1, 5 + log.log_end_offset % 4)
        if log.log_end_offset % 3 == 0:
            life.on.sync()
        yield


LOST_END = max(first_life()[0].states)
LEFT = pytest.mark.parametrize("left", [pytest.param(left, id=name) for name, left in survivors()])


def check(again: LogOnMemoryDisk, before: Life) -> None:
    found = Life()
    found.on = again
    end = again.log.log_end_offset
    assert end >= before.on.checkpoint
    assert found.state() == before.states[end]


@LEFT
def test_nothing_of_a_lost_future_counts_after_a_kill(left: Files) -> None:
    """KIP-98: the state of a partition is a function of its log."""
    life = second_life(left)
    for _ in go_on(life, LOST_END + 12):
        again = on_disk(life.on, deepcopy(life.on.disk))
        again.kill()
        assert again.log.log_end_offset == life.on.log.log_end_offset
        check(again, life)


@LEFT
@pytest.mark.parametrize("beyond", [-6, 1, 4, 12])
def test_nothing_of_a_lost_future_counts_after_another_power_cut(left: Files, beyond: int) -> None:
    life = second_life(left)
    for _ in go_on(life, LOST_END + beyond):
        pass
    again = on_disk(life.on, life.on.disk)
    again.crash()
    check(again, life)
