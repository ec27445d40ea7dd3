"""A member of a cluster on this machine: a process of its own, that ends with the process that started it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

MODULE = "oncelog.cli.member"
STOP_SECONDS = 60.0
COMPLAINTS_MAX = 20


class MemberError(Exception):
    """A member did not start, or did not stop in time."""


@dataclass(frozen=True, slots=True)
class Ready:
    """It serves. `line` is what it said of that."""

    member: MemberProcess
    line: str


@dataclass(frozen=True, slots=True)
class Complained:
    """It said a line on standard error."""

    member: MemberProcess
    line: str


@dataclass(frozen=True, slots=True)
class Ended:
    """Its process is gone, whether it was told to end or not."""

    member: MemberProcess
    status: int

    @property
    def how(self) -> str:
        if self.status < 0:
            return f"signal {-self.status} killed it"
        return f"it ended with status {self.status}"


Event = Ready | Complained | Ended


class MemberProcess:
    """One command of oncelog that says when it is ready, from each start to its end.

    What happens to it is reported on a thread of its own.
    """

    def __init__(self, name: str, report: Callable[[Event], None]) -> None:
        self.name = name
        self._report = report
        self._process: subprocess.Popen[str] | None = None
        self._complaints: deque[str] = deque(maxlen=COMPLAINTS_MAX)
        self._start_is_over = threading.Event()
        self._ready_line = ""
        self._watcher: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def ready_line(self) -> str:
        """The line that it printed when it was ready; empty before."""
        return self._ready_line

    @property
    def last_words(self) -> str:
        """The last lines that it printed, or the way its process ended."""
        if self._complaints:
            return self._complaints[-1]
        status = None if self._process is None else self._process.poll()
        return "it said nothing" if status is None else Ended(self, status).how

    def launch(self, arguments: Sequence[str]) -> None:
        """Start the process, and wait for nothing."""
        assert not self.is_running, f"{self.name} runs already"
        self._ready_line = ""
        self._complaints.clear()
        self._start_is_over.clear()
        self._process = subprocess.Popen(
            [sys.executable, "-m", MODULE, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # Ctrl-C is meant for who started it, and that decides which member stops first. The session stays the same: when
            # its parent dies, a process that is paused is then woken up by the kernel, with SIGHUP.
            process_group=0,
        )
        self._watcher = threading.Thread(target=self._watch, args=(self._process,), name=self.name, daemon=True)
        self._watcher.start()

    def wait_until_ready(self, timeout_seconds: float) -> None:
        """Raises MemberError where it ends instead, or takes longer."""
        if not self._start_is_over.wait(timeout_seconds):
            raise MemberError(f"{self.name} was not ready in {timeout_seconds:.0f} s")
        if not self._ready_line:
            raise MemberError(f"{self.name} did not start: {self.last_words}")

    def stop(self) -> None:
        """A clean stop. Raises MemberError, and kills it, where that takes too long."""
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise MemberError(f"{self.name} did not stop in {STOP_SECONDS:.0f} s, and was killed") from None
        self._wait_for_the_watcher()

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._wait_for_the_watcher()

    def give_up(self) -> None:
        """kill -9, and wait for nothing. A signal handler may call it, also while somebody waits."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """It does nothing and closes nothing until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None, f"{self.name} was never started"
        self._process.send_signal(number)

    def _wait_for_the_watcher(self) -> None:
        assert self._watcher is not None, "it was launched"
        if threading.current_thread() is not self._watcher:
            self._watcher.join()

    def _watch(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None, "it is a pipe"
        assert process.stdout is not None, "it is a pipe"
        assert process.stderr is not None, "it is a pipe"
        errors = threading.Thread(target=self._listen, args=(process.stderr,), name=f"{self.name} errors", daemon=True)
        errors.start()
        with process.stdin, process.stdout:
            for line in process.stdout:
                self._ready_line = line.rstrip()
                self._start_is_over.set()
                self._report(Ready(self, self._ready_line))
            status = process.wait()
        errors.join()
        self._start_is_over.set()
        self._report(Ended(self, status))

    def _listen(self, errors: IO[str]) -> None:
        with errors:
            for line in errors:
                said = line.rstrip().removeprefix("oncelog: ")
                self._complaints.append(said)
                self._report(Complained(self, said))
