"""Our broker with a watch on its event loop."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from harness.oncelog_process import OncelogNode
from harness.wire import Connection

PROGRAM = Path(__file__).parent / "watched_program.py"


@dataclass(frozen=True, slots=True)
class Callback:
    """One callback of the loop: the processor time it took, that of garbage collections in it, and what it was."""

    cpu_ms: float
    collecting_ms: float
    name: str


@dataclass(frozen=True, slots=True)
class Watched:
    """What came to light while a load ran: callbacks, the longest first, and files made durable on the loop's thread."""

    callbacks: tuple[Callback, ...]
    synced: tuple[str, ...]

    @property
    def longest_ms(self) -> float:
        return self.callbacks[0].cpu_ms if self.callbacks else 0.0


class WatchedNode(OncelogNode):
    def __init__(self, directory: Path, **settings: str) -> None:
        super().__init__(directory, **settings)
        self._report = directory / "watch.jsonl"
        self._told = 0

    def command(self) -> list[str]:
        _, *arguments = super().command()
        return [sys.executable, str(PROGRAM), str(self._report), *arguments]

    def watched(self) -> Watched:
        """What was seen since the last time this was asked."""
        # The answer to this comes from a later callback: what was before is told of by then.
        connection = Connection(self.bootstrap_servers)
        connection.ask("api_versions", 0)
        connection.close()
        lines = self._report.read_text().splitlines()
        found = [json.loads(line) for line in lines[self._told :]]
        self._told = len(lines)
        callbacks = [Callback(**one) for one in found if "cpu_ms" in one]
        callbacks.sort(key=lambda one: -one.cpu_ms)
        return Watched(tuple(callbacks), tuple(one["synced"] for one in found if "synced" in one))
