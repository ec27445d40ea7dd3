"""A broker on a thread is gone after its block, whatever ended that."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.wire import Connection
from oncelog import Broker
from oncelog.testing import broker


class ChildLeavesError(Exception):
    """A forked process leaves the block that its parent has entered."""


class TimeIsUpError(Exception):
    """What a plugin raises where a test takes too long, on the thread of the test."""


@pytest.fixture
def directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary directories are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def interruption() -> Iterator[threading.Timer]:
    """Once it is started it interrupts the main thread, as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise TimeIsUpError

    before = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    yield timer
    timer.cancel()
    timer.join()
    signal.signal(signal.SIGUSR1, before)


def brokers_left() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "oncelog-broker"]


def test_start_that_is_interrupted_leaves_no_broker_and_no_directory(directories, interruption):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ensemble = f"127.0.0.1:{silent.getsockname()[1]}"
        interruption.start()
        with (
            pytest.raises(TimeIsUpError),
            broker(broker_id=1, zookeeper_connect=ensemble, zookeeper_connection_timeout_ms=60_000),
        ):
            pytest.fail("it has no ZooKeeper")
    assert brokers_left() == []
    assert list(directories.iterdir()) == []


def test_stop_that_is_interrupted_leaves_no_broker_and_no_directory(directories, interruption, monkeypatch):
    stop = Broker.stop

    async def stop_when_interrupted(self: Broker) -> None:
        interruption.start()
        while not interruption.finished.is_set():
            threading.Event().wait(0.1)
        await stop(self)

    monkeypatch.setattr(Broker, "stop", stop_when_interrupted)
    with pytest.raises(TimeIsUpError), broker() as running:
        Connection(running.bootstrap_servers, timeout_seconds=10).close()
    assert brokers_left() == []
    assert list(directories.iterdir()) == []


def test_forked_process_that_leaves_the_block_waits_for_nobody_and_stops_nothing():
    try:
        with broker() as running:
            child = os.fork()
            if not child:
                raise ChildLeavesError
            deadline = time.monotonic() + 10
            while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
                time.sleep(0.02)
            if ended == (0, 0):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(ended[1]) == 7
            assert ended[0] == child
            Connection(running.bootstrap_servers, timeout_seconds=10).ask("api_versions", 0)
    except ChildLeavesError:
        os._exit(7)
