"""The processes of the demo: a broker and a driver, each of which may be killed with -9 and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

READY_SECONDS = 30.0
STOP_SECONDS = 20.0
OUTPUT_TAIL_BYTES = 2000


class ProcessError(Exception):
    """A process of the demo did not start, or ended by itself when it should not have."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class BrokerProcess:
    """`oncelog serve` on one data directory and one port."""

    def __init__(self, directory: Path) -> None:
        self._data = directory / "data"
        self._output = directory / "broker.txt"
        self._port = free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait for the line that says it is ready. Raises ProcessError."""
        with open(self._output, "a") as errors:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "oncelog.cli.main", "serve"),
                    *("--listen", self.bootstrap_servers, "--data-dir", str(self._data)),
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise ProcessError(f"the broker did not start: {tail(self._output)}")

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """A clean stop."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()


class DriverProcess:
    """One run of the driver program, Spark's JVM included."""

    def __init__(self, arguments: list[str], output: Path) -> None:
        self._output = output
        self._killed = threading.Event()
        with open(output, "w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "oncelog.cli.demo.driver", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def was_killed(self) -> bool:
        return self._killed.is_set()

    def kill(self) -> None:
        """kill -9 of the driver and its JVM at once. Spark's Python workers are left to find out by themselves."""
        self._killed.set()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for the end; return whether the driver had finished its work. Raises ProcessError after the timeout."""
        try:
            status = self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProcessError(f"the driver was still busy after {timeout_seconds:.0f} s: {self.tail()}") from None
        return status == 0

    def tail(self) -> str:
        return tail(self._output)


def tail(path: Path) -> str:
    """The end of a log file, for an error message."""
    return path.read_text(errors="replace")[-OUTPUT_TAIL_BYTES:].strip() if path.exists() else ""
