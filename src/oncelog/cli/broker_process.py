"""A broker as a child process: the log that `run` brings along, and the one that the demo kills."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

STOP_SECONDS = 20.0
OUTPUT_TAIL_BYTES = 2000


class ProcessError(Exception):
    """A process did not start, or ended by itself when it should not have."""


class BrokerProcess:
    """`oncelog serve` on one data directory and one address. What it complains of goes to the file `errors`."""

    def __init__(self, listen: str, data_directory: Path, errors: Path) -> None:
        self.bootstrap_servers = listen
        self._data = data_directory
        self._output = errors
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait for the line that says it is ready. Raises ProcessError."""
        with open(self._output, "w") as errors:
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
            raise ProcessError(f"the broker did not start: {last_line(self._output)}")

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        process, self._process = self._process, None
        assert process is not None, "the broker does not run"
        process.kill()
        process.wait()

    @property
    def complaint(self) -> str | None:
        """What the broker said last, where it ended by itself; None while it runs, or when it was told to end."""
        process = self._process
        if process is None or process.poll() is None:
            return None
        return last_line(self._output)

    def stop(self) -> None:
        """A clean stop."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()


def tail(path: Path) -> str:
    """The end of a log file, for an error message."""
    return path.read_text(errors="replace")[-OUTPUT_TAIL_BYTES:].strip() if path.exists() else ""


def last_line(path: Path) -> str:
    """What a process said last, without the name it puts before it."""
    lines = tail(path).splitlines()
    return lines[-1].removeprefix("oncelog: ") if lines else "it said nothing"
