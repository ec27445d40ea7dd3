"""One column of the demo's table: the job under its kills until it is done, and the count of its output."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from oncelog.demo.brokers import Brokers
from oncelog.demo.kills import Kill, Victim, WireMoment
from oncelog.demo.plan import PIPELINES, DemoPipeline, DemoRun, Guarantee
from oncelog.demo.processes import DriverProcess, Drivers, ProcessError
from oncelog.demo.tally import Expectations, Place, Tally, batch_ends, tally
from oncelog.demo.topics import ConcurrentReader, end_offsets, read_all
from oncelog.testing.proxy import ApiKey, Point, Proxy, Then

RUN_SECONDS_MAX = 600
LOOK_SECONDS = 0.2
UNPLANNED_ENDS_MAX = 3


@dataclass(frozen=True, slots=True)
class Stage:
    """The parts that both columns share."""

    directory: Path
    drivers: Drivers
    brokers: Brokers
    proxy: Proxy
    offsets_per_batch: int


@dataclass(frozen=True, slots=True)
class CompletedRuns:
    """One way of writing after all its kills. `seen` has the records that a concurrent reader got meanwhile.

    `ends` has the end offset of each partition of its topics, for the count later.
    """

    guarantee: Guarantee
    seen: Sequence[Place]
    ends: Mapping[str, Mapping[int, int]]
    kills: Mapping[Victim, int]
    unplanned_restarts: int


@dataclass(frozen=True, slots=True)
class Column:
    """One way of writing under the kills, counted."""

    completed: CompletedRuns
    tally: Tally


class Executioner:
    """Waits for the moment of one kill, and kills. `victim` has its name afterwards."""

    def __init__(self, stage: Stage, kill: Kill, guarantee: Guarantee) -> None:
        self._stage = stage
        self._kill = kill
        self._topic = kill.pipeline.topic(guarantee)
        self._driver: DriverProcess | None = None
        self.victim = kill.victim.value
        self.has_killed = threading.Event()

    def arm(self) -> None:
        """Count requests from the pipeline's first write on."""
        name = self._topic.encode()
        self._stage.proxy.at_request(ApiKey.PRODUCE, where=lambda frame: name in frame.payload, call=self._first_write)

    def aim(self, driver: DriverProcess) -> None:
        self._driver = driver

    def _first_write(self) -> None:
        if self._kill.after is None:
            self._wait_for_the_moment()
        else:
            self._at(self._kill.after, Then.FORWARD, self._wait_for_the_moment)

    def _wait_for_the_moment(self) -> None:
        self._at(self._kill.moment, Then.CUT, self._kill_victim)

    def _at(self, moment: WireMoment, then: Then, call: Callable[[], object]) -> None:
        add = self._stage.proxy.at_answer if moment.point is Point.ANSWER else self._stage.proxy.at_request
        add(moment.api_key, nth=moment.nth, then=then, call=call)

    def _kill_victim(self) -> None:
        if self._kill.victim is not Victim.DRIVER:
            with suppress(ProcessError):  # a complaint too
                self.victim = self._stage.brokers.kill(self._kill, self._topic)
                self.has_killed.set()
            return
        # Set first: another thread may see the driver end before kill returns.
        self.has_killed.set()
        assert self._driver is not None
        self._driver.kill()


def run_under_kills(
    stage: Stage, guarantee: Guarantee, say: Callable[[str], None], advance: Callable[[int], None]
) -> CompletedRuns:
    """Run the job under all its kills, until it is done and the brokers are back.

    `say` is called with a sentence for each kill, `advance` with the number of records that the concurrent reader got.
    """
    topics = [pipeline.topic(guarantee) for pipeline in PIPELINES]
    servers = stage.brokers.bootstrap_servers
    reader = ConcurrentReader(servers, topics, advance)
    reader.start()
    runs = Runs(stage, guarantee, say)
    for kill in stage.brokers.kills(guarantee):
        runs.run_under(kill)
    runs.run_to_the_end()
    stage.brokers.wait_until_whole()
    reader.stop()
    ends = {topic: end_offsets(servers, topic) for topic in topics}
    return CompletedRuns(guarantee, reader.seen, ends, runs.kills, runs.unplanned_restarts)


def count(stage: Stage, completed: CompletedRuns, expectations: Expectations) -> Column:
    """Read the output, and compare it with the expected records."""
    total = Tally()
    for pipeline in PIPELINES:
        total += _count(stage, completed, pipeline, expectations)
    return Column(completed, total)


class Runs:
    """The runs of the driver, one after the other, on the same checkpoints. A run survives the kill of a broker."""

    def __init__(self, stage: Stage, guarantee: Guarantee, say: Callable[[str], None]) -> None:
        self._stage = stage
        self._guarantee = guarantee
        self._say = say
        self._task = DemoRun(
            bootstrap_servers=stage.proxy.bootstrap_servers,
            guarantee=guarantee,
            checkpoints=stage.directory / "checkpoints",
            offsets_per_batch=stage.offsets_per_batch,
            finished=stage.directory / f"{guarantee}-finished",
        )
        self._driver: DriverProcess | None = None
        self.is_done = False
        self.kills: Counter[Victim] = Counter()
        self.unplanned_restarts = 0

    def run_under(self, kill: Kill) -> None:
        """Run the driver until the kill has happened. Raises ProcessError."""
        executioner = Executioner(self._stage, kill, self._guarantee)
        is_armed = False
        while not executioner.has_killed.is_set():
            driver = self._driver or self._stage.drivers.take()
            executioner.aim(driver)
            if not is_armed:
                executioner.arm()
                is_armed = True
            self._run(driver)
            if kill.victim is Victim.DRIVER:
                self._stage.drivers.prepare()
                self._wait(driver)
            else:
                self._wait(driver, executioner.has_killed)
            if self.is_done and not executioner.has_killed.is_set():
                raise ProcessError(f"the moment never came at which {kill.what}: {driver.tail()}")
        self.kills[kill.victim] += 1
        self._say(f"{executioner.victim} killed in {kill.pipeline.topic(self._guarantee)} once {kill.what}")

    def run_to_the_end(self) -> None:
        """Run the driver until it has done it all. Raises ProcessError when it fails too often."""
        while not self.is_done:
            driver = self._driver or self._stage.drivers.take()
            self._run(driver)
            self._wait(driver)

    def _run(self, driver: DriverProcess) -> None:
        """Have the driver begin, unless it has."""
        if driver is not self._driver:
            self._driver = driver
            driver.begin(self._task)

    def _wait(self, driver: DriverProcess, enough: threading.Event | None = None) -> None:
        """Wait until the driver is done or gone, or until `enough` is set."""
        if not self._has_ended(driver, enough):
            return
        self._driver = None
        self.is_done = self._task.finished.exists()
        if self.is_done:
            self._stage.drivers.give_back(driver)
        if self.is_done or driver.was_killed:
            return
        self.unplanned_restarts += 1
        if self.unplanned_restarts > UNPLANNED_ENDS_MAX:
            raise ProcessError(f"the driver failed {self.unplanned_restarts} times by itself: {driver.tail()}")

    def _has_ended(self, driver: DriverProcess, enough: threading.Event | None) -> bool:
        """Raises ProcessError, and leaves no driver, where the brokers complain or it takes too long."""
        latest = time.monotonic() + RUN_SECONDS_MAX
        try:
            while time.monotonic() < latest:
                if driver.wait(LOOK_SECONDS) is not None or self._task.finished.exists():
                    return True
                if (complaint := self._stage.brokers.complaint) is not None:
                    raise ProcessError(complaint)
                if enough is not None and enough.is_set():
                    return False
            raise ProcessError(f"the driver was still busy after {RUN_SECONDS_MAX} s: {driver.tail()}")
        except BaseException:
            driver.kill()
            raise


def _count(stage: Stage, completed: CompletedRuns, pipeline: DemoPipeline, expectations: Expectations) -> Tally:
    topic = pipeline.topic(completed.guarantee)
    due = expectations.of(pipeline, batch_ends(stage.directory / "checkpoints" / topic))
    outputs = list(read_all(stage.brokers.bootstrap_servers, topic, completed.ends[topic]))
    if completed.guarantee is Guarantee.EXACTLY_ONCE:
        meant = {output.place for output in outputs}
    else:
        # Plain writes are never marked as aborted; those that a later attempt of the batch repeated should have been.
        meant = set({(output.key, output.value): output.place for output in outputs}.values())
    return tally(due, outputs, meant, (place for place in completed.seen if place[0] == topic))
