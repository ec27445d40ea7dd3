"""The brokers of the demo: one broker, or a cluster."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from oncelog.demo.kills import Kill, kills
from oncelog.demo.plan import Guarantee
from oncelog.demo.processes import ProcessError, free_port
from oncelog.server.member_process import Complained, Event, MemberError, MemberProcess

START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster after every member is back. `resident_bytes` is by the member's name."""

    seed: int
    under_replicated: int
    offline: int
    resident_bytes: Mapping[str, int]


class Brokers(Protocol):
    """Brokers that are killed at any moment, and start again by themselves."""

    replication_factor: int
    micro_batches: int
    """The number of micro-batches of each pipeline: enough for every kill."""

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers."""

    @property
    def complaint(self) -> str | None:
        """A sentence about a failure that was no kill; None while there is none."""

    def start(self) -> None:
        """Start all of it, and wait until it serves. Raises ProcessError."""

    def kills(self, guarantee: Guarantee) -> tuple[Kill, ...]:
        """All kills for one way of writing, those of the driver included."""

    def kill(self, kill: Kill, topic: str) -> str:
        """kill -9 of the victim for the pipeline that writes to `topic`, and return its name. The next start is not awaited.

        Raises ProcessError where that is impossible, which is a complaint too.
        """

    def wait_until_whole(self) -> None:
        """Wait until every member is back and in sync. Raises ProcessError."""

    def state(self) -> ClusterState | None:
        """The state of a cluster for the end of the output; None for one broker."""

    def close(self) -> None:
        """Leave no process behind."""


class SingleBroker:
    """A broker that starts again as soon as it is killed. Its errors are in broker.txt."""

    replication_factor = 1
    micro_batches = 6

    def __init__(self, directory: Path) -> None:
        self.bootstrap_servers = f"127.0.0.1:{free_port()}"
        self._data = directory / "data"
        self._errors = directory / "broker.txt"
        self._process = MemberProcess("the broker", self._report)
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def complaint(self) -> str | None:
        with self._lock:
            if self._is_closed or self._process.is_running:
                return None
            return f"the broker stopped by itself: {self._process.last_words}"

    def start(self) -> None:
        self._launch()
        self.wait_until_whole()

    def kills(self, guarantee: Guarantee) -> tuple[Kill, ...]:
        return kills(guarantee)

    def kill(self, kill: Kill, topic: str) -> str:
        with self._lock:
            if self._is_closed:
                raise ProcessError("the demo is over")
            self._process.kill()
            self._launch()
        return kill.victim.value

    def wait_until_whole(self) -> None:
        try:
            self._process.wait_until_ready(START_SECONDS)
        except MemberError as error:
            raise ProcessError(str(error)) from error

    def state(self) -> ClusterState | None:
        return None

    def close(self) -> None:
        with self._lock, suppress(MemberError):
            self._is_closed = True
            self._process.stop()

    def _launch(self) -> None:
        self._process.launch(["serve", "--listen", self.bootstrap_servers, "--data-dir", str(self._data)])

    def _report(self, event: Event) -> None:
        if isinstance(event, Complained):
            with open(self._errors, "a") as lines:
                lines.write(f"{event.line}\n")
