"""The runs of the driver under kills, with a driver that needs no Spark."""

from __future__ import annotations

import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from harness.waiting import until
from oncelog.demo import processes
from oncelog.demo.brokers import Brokers, SingleBroker
from oncelog.demo.column import UNPLANNED_ENDS_MAX, Runs, Stage
from oncelog.demo.kills import Kill, Victim, WireMoment
from oncelog.demo.plan import DEPARTURES, Guarantee
from oncelog.demo.processes import DriverProcess, Drivers, ProcessError
from oncelog.testing.proxy import ApiKey, Point, Proxy

WRITES_TEN = """
import sys
from confluent_kafka import Producer
from oncelog.demo.plan import DEPARTURES, DemoRun

task = DemoRun.from_line(sys.stdin.readline())
producer = Producer({"bootstrap.servers": task.bootstrap_servers})
for number in range(10):
    producer.produce(DEPARTURES.topic(task.guarantee), str(number))
    producer.flush()
task.finished.touch()
"""

WRITES_NOTHING = """
import sys
from oncelog.demo.plan import DemoRun

DemoRun.from_line(sys.stdin.readline()).finished.touch()
"""

WAITS = """
import sys

sys.stdin.read()
"""

KEEPS_A_FILE = """
import sys
import tempfile

kept = tempfile.NamedTemporaryFile(prefix="of-a-driver-")
print("kept", flush=True)
sys.stdin.read()
"""

FAILS = """
import sys
from oncelog.demo.plan import DemoRun

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


BROKER_KILL = Kill(Victim.BROKER, DEPARTURES, "two records had been produced", SECOND_WRITE)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def runs_of(tmp_path, said) -> Iterator[Callable[..., Runs]]:
    """Runs of a program as the driver, with a broker, a proxy and drivers of their own."""
    with ExitStack() as stack:
        broker = SingleBroker(tmp_path)
        stack.callback(broker.close)
        broker.start()
        proxy = stack.enter_context(Proxy(broker.bootstrap_servers))

        def of(program: str, brokers: Brokers = broker) -> Runs:
            drivers = Drivers(["-c", program], tmp_path)
            stack.callback(drivers.close)
            stage = Stage(tmp_path, drivers, brokers, proxy, offsets_per_batch=1)
            return Runs(stage, Guarantee.EXACTLY_ONCE, said.append)

        yield of


def test_driver_that_is_gone_before_the_kill_has_returned_was_killed(runs_of, monkeypatch):
    class SlowToReturn(DriverProcess):
        def kill(self) -> None:
            super().kill()
            time.sleep(1)

    monkeypatch.setattr(processes, "DriverProcess", SlowToReturn)
    runs = runs_of(WRITES_TEN)
    runs.run_under(KILL)
    assert (runs.kills, runs.unplanned_restarts, runs.is_done) == ({Victim.DRIVER: 1}, 0, False)


def test_driver_that_fails_by_itself_is_started_again_under_the_same_kill(runs_of):
    runs = runs_of(FAILS_AT_FIRST)
    runs.run_under(KILL)
    assert (runs.kills, runs.unplanned_restarts, runs.is_done) == ({Victim.DRIVER: 1}, 1, False)


def test_driver_that_always_fails_is_an_error_with_what_it_said(runs_of):
    runs = runs_of(FAILS)
    with pytest.raises(ProcessError, match=r"^the driver failed \d times by itself: no more disk$"):
        runs.run_under(KILL)
    assert runs.unplanned_restarts == UNPLANNED_ENDS_MAX + 1


def test_driver_that_is_done_before_the_moment_is_an_error(runs_of):
    with pytest.raises(ProcessError, match=r"^the moment never came at which two records had been produced: $"):
        runs_of(WRITES_NOTHING).run_under(KILL)


def test_killed_broker_is_started_again_and_the_driver_ends_its_work(runs_of, said):
    runs = runs_of(WRITES_TEN)
    runs.run_under(BROKER_KILL)
    assert not runs.is_done
    runs.run_to_the_end()
    assert (runs.kills, runs.unplanned_restarts, runs.is_done) == ({Victim.BROKER: 1}, 0, True)
    assert said == ["broker killed in departures once two records had been produced"]


def test_driver_goes_on_after_a_broker_was_killed_and_is_killed_itself_next(runs_of, tmp_path):
    runs = runs_of(WRITES_TEN)
    runs.run_under(BROKER_KILL)
    runs.run_under(KILL)
    assert (runs.kills, runs.is_done) == ({Victim.BROKER: 1, Victim.DRIVER: 1}, False)
    assert sorted(path.name for path in tmp_path.glob("driver-*.txt")) == ["driver-1.txt", "driver-2.txt"]
    runs.run_to_the_end()
    assert (runs.unplanned_restarts, runs.is_done) == (0, True)


def test_brokers_that_complain_are_an_error_and_the_driver_is_left_to_nobody(runs_of):
    class Complaining:
        bootstrap_servers = ""
        complaint = "broker 2 stopped by itself: no more disk"

    runs = runs_of(WAITS, Complaining())
    with pytest.raises(ProcessError, match=r"^broker 2 stopped by itself: no more disk$"):
        runs.run_to_the_end()


def test_no_driver_is_left_running(tmp_path):
    drivers = Drivers(["-c", WAITS], tmp_path)
    begun = drivers.take()
    drivers.prepare()
    standby = drivers.take()
    drivers.close()
    assert [driver.wait(0) for driver in (begun, standby)] == [-signal.SIGKILL] * 2


def test_temporary_files_of_killed_drivers_are_not_left(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    output = tmp_path / "output"
    output.mkdir()
    drivers = Drivers(["-c", KEEPS_A_FILE], output)
    driver = drivers.take()
    until(lambda: driver.tail() == "kept")
    assert list(tmp_path.glob("*/of-a-driver-*"))
    drivers.close()
    assert list(tmp_path.iterdir()) == [output]


def test_broker_whose_restart_is_under_way_is_stopped_too(tmp_path):
    broker = SingleBroker(tmp_path)
    broker.start()
    assert broker.kill(BROKER_KILL, "departures") == "broker"
    broker.close()
    host, port = broker.bootstrap_servers.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    with pytest.raises(ProcessError, match="over"):
        broker.kill(BROKER_KILL, "departures")
