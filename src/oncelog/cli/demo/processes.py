"""The driver of the demo, which may be killed with -9 at any time."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from oncelog.cli.broker_process import tail


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


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

    def wait(self, timeout_seconds: float) -> int | None:
        """Wait for the end; return the exit status, None while the driver is busy."""
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return None

    def tail(self) -> str:
        return tail(self._output)
