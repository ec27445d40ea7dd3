"""Our own broker in a process of its own, started as a user starts it."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.processes import BrokerProcess

READY = "oncelog is ready on "


class OncelogNode(BrokerProcess):
    """`oncelog serve` on a data directory, or those of the setting log_dirs, and a fixed port."""

    name = "oncelog"

    def __init__(self, directory: Path, **settings: str) -> None:
        """Settings have Kafka's names, with underscores for their dots."""
        super().__init__(directory)
        self.data_directory = directory / "data"
        self._where = [] if "log_dirs" in settings else ["--data-dir", str(self.data_directory)]
        self._settings = [f"--set={name.replace('_', '.')}={value}" for name, value in settings.items()]

    @staticmethod
    def program() -> str:
        """The installed command of this environment."""
        return str(Path(sys.executable).parent / "oncelog")

    def command(self) -> list[str]:
        return [self.program(), "serve", "--listen", self.bootstrap_servers, *self._where, *self._settings]

    def _has_said_so(self) -> bool:
        return READY in self.said()
