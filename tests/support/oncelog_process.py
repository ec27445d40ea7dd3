"""Our own broker in a process of its own, started as a user starts it."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.processes import BrokerProcess


class OncelogNode(BrokerProcess):
    """`oncelog serve` on a data directory and a fixed port."""

    name = "oncelog"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.data_directory = directory / "data"

    @staticmethod
    def program() -> str:
        """The installed command of this environment."""
        return str(Path(sys.executable).parent / "oncelog")

    def command(self) -> list[str]:
        return [self.program(), "serve", "--listen", self.bootstrap_servers, "--data-dir", str(self.data_directory)]
