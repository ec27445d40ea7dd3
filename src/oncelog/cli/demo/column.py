"""One column of the demo's table: the job under its kills, until everything has settled, and what came out of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from oncelog.cli.broker_process import BrokerProcess, ProcessError
from oncelog.cli.demo.kills import Kill, Victim, WireMoment, kills
from oncelog.cli.demo.plan import PIPELINES, DemoPipeline, DemoRun, Guarantee
from oncelog.cli.demo.processes import DriverProcess, Drivers
from oncelog.cli.demo.reading import ConcurrentReader, read_all
from oncelog.cli.demo.tally import Expectations, Place, Tally, batch_ends, tally
from oncelog.testing.proxy import ApiKey, Point, Proxy, Then

RUN_SECONDS_MAX = 600
LOOK_SECONDS = 0.2
UNPLANNED_ENDS_MAX = 3


@dataclass(frozen=True, slots=True)
class Stage:
    """What both columns share."""

    directory: Path
    drivers: Drivers
    broker: BrokerProcess
    proxy: Proxy
    offsets_per_batch: int


@dataclass(frozen=True, slots=True)
class Settled:
    """One way of writing, done with all its kills. `seen` is what a concurrent reader got meanwhile."""

    guarantee: Guarantee
    seen: Sequence[Place]
    driver_kills: int
    broker_kills: int
    unplanned_restarts: int


@dataclass(frozen=True, slots=True)
class Column:
    """What one way of writing did under the kills."""

    settled: Settled
    tally: Tally


class Executioner:
    """Waits on the wire for the moment of one kill, and kills."""

    def __init__(self, stage: Stage, kill: Kill, guarantee: Guarantee) -> None:
        self._stage = stage
        self._kill = kill
        self._text = kill.pipeline.topic(guarantee).encode()
        self._driver: DriverProcess | None = None
        self.has_struck = threading.Event()

    def arm(self) -> None:
        """Start to count at the pipeline's first write."""
        self._stage.proxy.at_request(
            ApiKey.PRODUCE, where=lambda frame: self._text in frame.payload, call=self._first_write
        )

    def aim(self, driver: DriverProcess) -> None:
        self._driver = driver

    def _first_write(self) -> None:
        if self._kill.after is None:
            self._wait_for_the_moment()
        else:
            self._at(self._kill.after, Then.FORWARD, self._wait_for_the_moment)

    def _wait_for_the_moment(self) -> None:
        self._at(self._kill.moment, Then.CUT, self._strike)

    def _at(self, moment: WireMoment, then: Then, call: Callable[[], object]) -> None:
        add = self._stage.proxy.at_answer if moment.point is Point.ANSWER else self._stage.proxy.at_request
        add(moment.api_key, nth=moment.nth, then=then, call=call)

    def _strike(self) -> None:
        # Said first: the victim's end may be seen before the call that kills it has returned.
        self.has_struck.set()
        if self._kill.victim is Victim.BROKER:
            self._stage.broker.kill()
            threading.Thread(target=self._stage.broker.start, name="broker's restart", daemon=True).start()
        else:
            assert self._driver is not None
            self._driver.kill()


def settle(stage: Stage, guarantee: Guarantee, say: Callable[[str], None], advance: Callable[[int], None]) -> Settled:
    """Run the job with one kill in each run of the driver, until it is done.

    `say` gets a sentence for each kill, `advance` the number of records that the concurrent reader has got.
    """
    topics = [pipeline.topic(guarantee) for pipeline in PIPELINES]
    reader = ConcurrentReader(stage.broker.bootstrap_servers, topics, advance)
    reader.start()
    runs = Runs(stage, guarantee, say)
    for kill in kills(guarantee):
        runs.run_under(kill)
    while not runs.is_done:
        runs.run_freely()
    reader.stop()
    return Settled(guarantee, reader.seen, runs.driver_kills, runs.broker_kills, runs.unplanned_restarts)


def count(stage: Stage, settled: Settled, expectations: Expectations) -> Column:
    """Read what came out, and compare it with what should have."""
    total = Tally()
    for pipeline in PIPELINES:
        total += _count(stage, settled.guarantee, pipeline, expectations, settled.seen)
    return Column(settled, total)


class Runs:
    """The runs of the driver, one after the other, on the same checkpoints."""

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
        self.is_done = False
        self.driver_kills = 0
        self.broker_kills = 0
        self.unplanned_restarts = 0

    def run_under(self, kill: Kill) -> None:
        """Run the driver until it is killed, or has done it all where the broker is killed. Raises ProcessError."""
        executioner = Executioner(self._stage, kill, self._guarantee)
        executioner.arm()
        while not executioner.has_struck.is_set():
            driver = self._stage.drivers.take()
            executioner.aim(driver)
            # The broker dies in the last run, and a standby would miss it.
            self._run(driver, is_last=kill.victim is Victim.BROKER)
            if self.is_done and not executioner.has_struck.is_set():
                raise ProcessError(f"the moment never came at which {kill.what}: {driver.tail()}")
        self.driver_kills += kill.victim is Victim.DRIVER
        self.broker_kills += kill.victim is Victim.BROKER
        self._say(f"{kill.victim.value} killed in {kill.pipeline.topic(self._guarantee)} once {kill.what}")

    def run_freely(self) -> None:
        """Run the driver until it has done it all. Raises ProcessError when it fails too often."""
        self._run(self._stage.drivers.take(), is_last=True)

    def _run(self, driver: DriverProcess, *, is_last: bool) -> None:
        driver.begin(self._task)
        if not is_last:
            self._stage.drivers.prepare()
        self._wait(driver)

    def _wait(self, driver: DriverProcess) -> None:
        self._wait_for_the_end(driver)
        self.is_done = self._task.finished.exists()
        if self.is_done:
            self._stage.drivers.give_back(driver)
        if self.is_done or driver.was_killed:
            return
        self.unplanned_restarts += 1
        if self.unplanned_restarts > UNPLANNED_ENDS_MAX:
            raise ProcessError(f"the driver failed {self.unplanned_restarts} times by itself: {driver.tail()}")

    def _wait_for_the_end(self, driver: DriverProcess) -> None:
        """Wait until the driver has done its task, or is gone. Raises ProcessError, and leaves no driver."""
        latest = time.monotonic() + RUN_SECONDS_MAX
        try:
            while time.monotonic() < latest:
                if driver.wait(LOOK_SECONDS) is not None or self._task.finished.exists():
                    return
                if (complaint := self._stage.broker.complaint) is not None:
                    raise ProcessError(f"the broker stopped by itself: {complaint}")
            raise ProcessError(f"the driver was still busy after {RUN_SECONDS_MAX} s: {driver.tail()}")
        except BaseException:
            driver.kill()
            raise


def _count(
    stage: Stage, guarantee: Guarantee, pipeline: DemoPipeline, expectations: Expectations, seen: Iterable[Place]
) -> Tally:
    topic = pipeline.topic(guarantee)
    due = expectations.of(pipeline, batch_ends(stage.directory / "checkpoints" / topic))
    outputs = list(read_all(stage.broker.bootstrap_servers, topic))
    if guarantee is Guarantee.EXACTLY_ONCE:
        meant = {output.place for output in outputs}
    else:
        # Plain writes are never marked as aborted; those that a later attempt of the batch repeated should have been.
        meant = set({(output.key, output.value): output.place for output in outputs}.values())
    return tally(due, outputs, meant, (place for place in seen if place[0] == topic))
