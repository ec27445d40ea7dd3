"""A follower's log moves to another log directory, while it follows and while it is cut off for what its leader does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from uuid import UUID

import pytest

from harness.broker_in_memory import CountingRandom, SteppedDisk
from harness.manual_clock import ManualClock
from harness.memory_disk import PowerCut
from harness.replica_on_memory_disk import HOME, INDEX, TOPIC, TOPIC_ID, ReplicaOnMemoryDisk
from oncelog.broker.config.configuration import Settings
from oncelog.broker.slices import Slices
from oncelog.broker.storage.moving import LogMoves
from oncelog.broker.storage.partition import Partition, ReplicaRole
from oncelog.broker.storage.topics import Topic
from oncelog.broker.storage.truncating import begin_logs_again, truncate_logs
from oncelog.coordination import Flow, Task, start
from oncelog.environment import DiskError
from oncelog.log import LogConfig
from oncelog.records import ControlType

OTHER = "/other"
CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200, file_delete_delay_ms=0)
COMMON = 12
SETTINGS = {"file.delete.delay.ms": "0"}


class TickingClock(ManualClock):
    """Whoever measures finds that some time has passed: a copy rests after each of its steps."""

    def __init__(self) -> None:
        super().__init__()
        self._ticks = 0

    def monotonic_ms(self) -> float:
        self._ticks += 1
        return self._ticks


class MovingReplica(ReplicaOnMemoryDisk):
    """With two log directories. It stands for the broker of its `LogMoves`."""

    paths = (HOME, OTHER)

    def __init__(self, seed: int) -> None:
        self.random = CountingRandom()
        self.cutting = SteppedDisk(seed)
        super().__init__(CONFIG, disk=self.cutting)

    def open(self) -> None:
        self.clock = TickingClock()
        super().open()
        self.partition = Partition(TOPIC, INDEX, -1, self._failed, Slices(ManualClock()))
        self.partition.host(self.log, self.directories.holder(TOPIC, INDEX), ReplicaRole.FOLLOWER)
        self.topic = Topic(TOPIC, TOPIC_ID, {}, Settings().topic_values | SETTINGS, [self.partition])
        self.moves = LogMoves(
            self, self.clock, self.durability, self.directories, self, self.survives, self.disk, self.random
        )
        self.moves.resume()

    def with_id(self, topic_id: UUID) -> Topic | None:
        return self.topic if topic_id == TOPIC_ID else None

    def survives(self, error: DiskError) -> bool:
        raise error

    def _failed(self, _: Partition, error: DiskError) -> None:
        raise error

    def sync(self) -> None:
        self.until_over(self.durability.make_durable([self.log]))

    def until_over(self, task: Task[None]) -> None:
        while not task.is_resolved:
            assert self.step(), "nothing is left to do"

    def step(self) -> bool:
        """One file is durable, or a rest is over; False where there is nothing to wait for."""
        if self.cutting.take_step():
            return True
        before = self.clock.now_ms()
        self.clock.advance(1_000)
        return bool(self.clock._timers) or bool(self.cutting.steps) or self.clock.now_ms() == before

    def settle(self) -> None:
        for _ in range(500):
            if not self.step() and not self.cutting.steps:
                return
        raise AssertionError("it does not come to an end")

    @property
    def place(self) -> list[str]:
        return [path for path in self.paths if f"{TOPIC}-{INDEX}" in self.disk.list_directory(path)]

    @property
    def leftovers(self) -> list[str]:
        names = [name for path in self.paths for name in self.disk.list_directory(path)]
        return [name for name in names if name.endswith(("-future", "-delete"))]

    def begin_move(self) -> None:
        self.moves.begin(self.partition, OTHER)


def history(epoch: int, base: ReplicaOnMemoryDisk | None = None, count: int = 30) -> ReplicaOnMemoryDisk:
    """A leader's log: what it has in common with another one's, and then its own."""
    on = ReplicaOnMemoryDisk(CONFIG)
    while base is not None and on.log.log_end_offset < COMMON:
        on.log.append_as_follower(base.read(on.log.log_end_offset, 1))
    on.log.lead(epoch)
    for number in range(count):
        if number % 3 == 2:
            on.produce(b"t" * 40, producer=(epoch + 1, 0), sequence=number // 3, transactional=True)
            on.mark(ControlType(number % 2), (epoch + 1, 0))
        on.produce(b"%d of %d " % (number, epoch) * 10)
    return on


OLD = history(0)
NEW = history(1, OLD)


def later_history() -> ReplicaOnMemoryDisk:
    """A leader's log that begins behind all that another one had."""
    on = ReplicaOnMemoryDisk(CONFIG)
    on.begin_again_at(LATER)
    on.log.lead(5)
    for _ in range(10):
        on.produce(bytes(100))
    return on


LATER = 500
CUTS: dict[str, tuple[ReplicaOnMemoryDisk, Callable[[MovingReplica], Flow[None]]]] = {
    "to an offset": (NEW, lambda on: truncate_logs(on.durability, on, {on.log: COMMON})),
    "to nothing": (later_history(), lambda on: begin_logs_again(on.durability, on, {on.log: LATER})),
}
"""The log that is followed then, and how the follower is cut off for it."""


def moving(seed: int, steps: int) -> MovingReplica:
    """It has what the old leader had, and its move has come so far."""
    on = MovingReplica(seed)
    on.follow(OLD)
    on.log.advance_high_watermark(COMMON)
    on.sync()
    on.begin_move()
    for _ in range(steps):
        on.step()
    return on


def until_it_has_moved() -> Iterator[int]:
    """Each number of steps at which a move may be interrupted."""
    steps = 0
    while True:
        on = moving(0, steps)
        if not on.moves._moves:
            return
        yield steps
        steps += 1


ALL_STEPS = list(until_it_has_moved())


def test_a_move_takes_many_steps() -> None:
    assert len(ALL_STEPS) > 10


@pytest.mark.parametrize("cut", CUTS)
def test_log_that_is_cut_off_at_any_step_of_its_move_arrives_with_what_its_leader_has(cut: str) -> None:
    leader, cut_off = CUTS[cut]
    for steps in ALL_STEPS:
        on = moving(steps, steps)
        on.until_over(start(cut_off(on)))
        on.follow(leader)
        on.settle()
        assert (on.place, on.leftovers) == ([OTHER], []), steps
        assert on.read_all() == leader.read_all(), steps
        on.sync()
        on.crash()
        assert (on.place, on.leftovers) == ([OTHER], []), steps
        assert on.read_all() == leader.read_all(), steps
        assert on.log.epoch_end_offset(0) == leader.log.epoch_end_offset(0), steps


@pytest.mark.parametrize("steps", ALL_STEPS)
def test_copy_begins_again_while_the_log_follows_its_new_leader(steps: int) -> None:
    """The other leader's batches come while the rest is copied, each between two steps."""
    on = moving(steps, steps)
    on.until_over(start(truncate_logs(on.durability, on, {on.log: COMMON})))
    draw = Random(steps)
    follow_in_steps(on, NEW, draw)
    on.settle()
    assert (on.place, on.leftovers) == ([OTHER], [])
    assert on.read_all() == NEW.read_all()
    copied = {path: on.disk.read_file(path) for path in on.disk.paths() if path.startswith(f"{OTHER}/{TOPIC}-{INDEX}/")}
    assert sum(len(data) for path, data in copied.items() if path.endswith(".log")) == len(NEW.read_all())


def follow_in_steps(on: MovingReplica, leader: ReplicaOnMemoryDisk, draw: Random) -> None:
    while on.log.log_end_offset < leader.log.log_end_offset:
        on.log.append_as_follower(leader.read(on.log.log_end_offset, draw.randrange(600)))
        on.step()


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("how", ["kill", "power"])
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.drawn(3)) for seed in range(6)])
def test_stop_at_any_change_of_a_move_and_a_truncation_leaves_a_log_that_goes_on(seed: int, how: str, cut: str) -> None:
    leader, cut_off = CUTS[cut]
    draw = Random(f"{seed} {how} {cut}")
    stop = stops = 0
    is_stopped = True
    while is_stopped:
        on = moving(seed * 1000 + stop, draw.choice(ALL_STEPS))
        on.cutting.changes_left = stop
        with suppress(PowerCut):
            on.until_over(start(cut_off(on)))
            follow_in_steps(on, leader, draw)
            on.sync()
            on.settle()
            is_stopped = False
        stops += is_stopped
        on.cutting.changes_left = None
        on.kill() if how == "kill" else on.crash()
        found = on.read_all()
        assert leader.read_all().startswith(found) or found in OLD.read_all(), stop
        if cut == "to an offset":
            assert on.log.log_end_offset >= COMMON, stop
        # What it may have been left with is cut off again, and it goes on and arrives.
        on.until_over(start(cut_off(on)))
        on.follow(leader)
        on.sync()
        on.settle()
        assert (len(on.place), on.leftovers) == (1, []), stop
        on.crash()
        assert on.read_all() == leader.read_all(), stop
        stop += 1 + draw.randrange(3)
    assert stops > 10
