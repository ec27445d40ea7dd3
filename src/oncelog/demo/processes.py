"""The processes of the demo's driver, which are killed with -9 at any time."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from oncelog.demo.plan import DemoRun

KILL_SECONDS = 10.0
OUTPUT_TAIL_BYTES = 2000


class ProcessError(Exception):
    """A process of the demo did not start, or ended when it should not have; or what it left behind is not usable."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class DriverProcess:
    """A Python program as the driver, with Spark's JVM. It gets ready, and does nothing until `begin`.

    Its temporary files go to `temporary`, because a program that is killed leaves them behind. NumPy has one thread, because its
    import takes 80 ms of the processor for each.
    """

    def __init__(self, arguments: Sequence[str], output: Path, temporary: str) -> None:
        self._output = output
        self._killed = threading.Event()
        with open(output, "w") as log:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=os.environ | {"TMPDIR": temporary, "OMP_NUM_THREADS": "1"},
                text=True,
                start_new_session=True,
            )

    def begin(self, task: DemoRun) -> None:
        """Send the task. A driver that has ended by itself ignores it; `wait` returns its status."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(task.to_line() + "\n")
            self._process.stdin.flush()

    @property
    def was_killed(self) -> bool:
        return self._killed.is_set()

    def kill(self) -> None:
        """kill -9 of the driver and its JVM at once. Spark's Python workers end when they notice."""
        self._killed.set()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self, timeout_seconds: float) -> int | None:
        """Wait for the end; return the exit status, None while the driver is busy."""
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return None

    def tail(self) -> str:
        """The end of its output, for an error message."""
        return self._output.read_text(errors="replace")[-OUTPUT_TAIL_BYTES:].strip()


class Drivers:
    """Starts drivers ahead of time, one after the other, so that the next is ready when one has been killed."""

    def __init__(self, arguments: Sequence[str], directory: Path) -> None:
        self._arguments = arguments
        self._directory = directory
        self._temporary = tempfile.TemporaryDirectory(prefix="oncelog-", ignore_cleanup_errors=True)
        self._started: list[DriverProcess] = []
        self._standby: DriverProcess | None = None

    def prepare(self) -> None:
        """Have one get ready."""
        if self._standby is None:
            output = self._directory / f"driver-{len(self._started) + 1}.txt"
            self._standby = DriverProcess(self._arguments, output, self._temporary.name)
            self._started.append(self._standby)

    def take(self) -> DriverProcess:
        """The standby, which is ready or about to be."""
        self.prepare()
        driver, self._standby = self._standby, None
        assert driver is not None
        return driver

    def give_back(self, driver: DriverProcess) -> None:
        """Keep a driver that is done as the standby, unless there is one."""
        if self._standby is None:
            self._standby = driver
        else:
            driver.kill()

    def close(self) -> None:
        """Kill all drivers, and remove their temporary files."""
        for driver in self._started:
            if driver.wait(0) is None:
                driver.kill()
                driver.wait(KILL_SECONDS)
        self._temporary.cleanup()
