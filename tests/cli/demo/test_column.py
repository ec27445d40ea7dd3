"""The runs of the driver under kills, with a driver that needs no Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from oncelog.cli.broker_process import BrokerProcess, ProcessError
from oncelog.cli.demo import processes
from oncelog.cli.demo.column import UNPLANNED_ENDS_MAX, Runs, Stage
from oncelog.cli.demo.kills import Kill, Victim, WireMoment
from oncelog.cli.demo.plan import DEPARTURES, Guarantee
from oncelog.cli.demo.processes import DriverProcess, Drivers, free_port
from oncelog.testing.proxy import ApiKey, Point, Proxy

WRITES_TEN = """
import sys
from confluent_kafka import Producer
from oncelog.cli.demo.plan import DEPARTURES, DemoRun

task = DemoRun.from_line(sys.stdin.readline())
producer = Producer({"bootstrap.servers": task.bootstrap_servers})
for number in range(10):
    producer.produce(DEPARTURES.topic(task.guarantee), str(number))
    producer.flush()
task.finished.touch()
"""

WRITES_NOTHING = """
import sys
from oncelog.cli.demo.plan import DemoRun

DemoRun.from_line(sys.stdin.readline()).finished.touch()
"""

FAILS = """
import sys
from oncelog.cli.demo.plan import DemoRun

task = DemoRun.from_line(sys.stdin.readline())
sys.exit("no more disk")
"""

FAILS_AT_FIRST = WRITES_TEN.replace(
    "producer =",
    """
failed_before = task.finished.with_name("failed before")
if not failed_before.exists():
    failed_before.touch()
    sys.exit("no more disk")
producer =""",
)

SECOND_WRITE = WireMoment(ApiKey.PRODUCE, Point.ANSWER, 2)
KILL = Kill(Victim.DRIVER, DEPARTURES, "two records had been produced", SECOND_WRITE)


@pytest.fixture
def runs_of(tmp_path) -> Iterator[Callable[[str], Runs]]:
    """Runs of a program as the driver, with a broker, a proxy and drivers of their own."""
    with ExitStack() as stack:
        broker = BrokerProcess(f"127.0.0.1:{free_port()}", tmp_path / "data", tmp_path / "broker.txt")
        broker.start()
        stack.callback(broker.stop)
        proxy = stack.enter_context(Proxy(broker.bootstrap_servers))

        def of(program: str) -> Runs:
            drivers = Drivers(["-c", program], tmp_path)
            stack.callback(drivers.close)
            return Runs(Stage(tmp_path, drivers, broker, proxy, offsets_per_batch=1), Guarantee.EXACTLY_ONCE, say=print)

        yield of


def test_driver_that_is_gone_before_the_kill_has_returned_was_killed(runs_of, monkeypatch):
    class SlowToReturn(DriverProcess):
        def kill(self) -> None:
            super().kill()
            time.sleep(1)

    monkeypatch.setattr(processes, "DriverProcess", SlowToReturn)
    runs = runs_of(WRITES_TEN)
    runs.run_under(KILL)
    assert (runs.driver_kills, runs.unplanned_restarts, runs.is_done) == (1, 0, False)


def test_driver_that_fails_by_itself_is_started_again_under_the_same_kill(runs_of):
    runs = runs_of(FAILS_AT_FIRST)
    runs.run_under(KILL)
    assert (runs.driver_kills, runs.unplanned_restarts, runs.is_done) == (1, 1, False)


def test_driver_that_always_fails_is_an_error_with_what_it_said(runs_of):
    runs = runs_of(FAILS)
    with pytest.raises(ProcessError, match=r"^the driver failed \d times by itself: no more disk$"):
        runs.run_under(KILL)
    assert runs.unplanned_restarts == UNPLANNED_ENDS_MAX + 1


def test_driver_that_is_done_before_the_moment_is_an_error(runs_of):
    with pytest.raises(ProcessError, match=r"^the moment never came at which two records had been produced: $"):
        runs_of(WRITES_NOTHING).run_under(KILL)


def test_killed_broker_is_started_again_and_the_driver_ends_its_work(runs_of):
    runs = runs_of(WRITES_TEN)
    runs.run_under(Kill(Victim.BROKER, DEPARTURES, "two records had been produced", SECOND_WRITE))
    assert (runs.broker_kills, runs.driver_kills, runs.is_done) == (1, 0, True)
