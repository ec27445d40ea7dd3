"""Catches a checkpoint and a broker's log as a driver that is killed leaves them, after every change of the checkpoint."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.processes import BrokerProcess


@dataclass(frozen=True)
class Point:
    """What was there after a change: `directory` has a copy of the checkpoint and of the broker's data."""

    change: str
    directory: Path

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    @property
    def data(self) -> Path:
        return self.directory / "data"


class Recorder:
    """Listens to the watched file system, and copies what is there while the broker stands still."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._recording: tuple[BrokerProcess, Path, Path, Callable[[], None]] | None = None
        self._before: object = None
        self.points: list[Point] = []
        self.changes = 0
        threading.Thread(target=self._listen, name="recorder", daemon=True).start()

    def begin(self, node: BrokerProcess, checkpoint: Path, directory: Path, settle: Callable[[], None]) -> None:
        """`settle` is called before the broker is stopped, and returns when it may be."""
        self.points, self.changes, self._before = [], 0, None
        self._recording = node, checkpoint, directory, settle

    def end(self) -> list[Point]:
        self._recording = None
        return self.points

    def _listen(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rb") as lines:
                change = lines.readline().decode().strip()
                if self._recording is not None:
                    self._catch(change, *self._recording)
                connection.sendall(b"k")

    def _catch(
        self, change: str, node: BrokerProcess, checkpoint: Path, directory: Path, settle: Callable[[], None]
    ) -> None:
        self.changes += 1
        settle()
        node.send_signal(signal.SIGSTOP)
        try:
            _await_stop(node.pid)
            now = (_files(checkpoint), _log_sizes(node.data_directory))
            if now == self._before:
                return
            self._before = now
            point = Point(change, directory / f"{len(self.points):03d}")
            point.directory.mkdir(parents=True)
            copy(checkpoint, point.checkpoint)
            copy(node.data_directory, point.data)
            self.points.append(point)
        finally:
            node.send_signal(signal.SIGCONT)


def copy(source: Path, target: Path) -> None:
    """Copy a directory; the broker's files are mostly holes."""
    if source.exists():
        subprocess.run(["cp", "-r", "--sparse=always", str(source), str(target)], check=True)


def _await_stop(pid: int) -> None:
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.0005)


def _files(checkpoint: Path) -> list[tuple[str, int]]:
    """What Spark would find: a file that is still being written has a name that it passes over, but before micro-batch 0."""
    finished = [
        (str(path.relative_to(checkpoint)), path.stat().st_size)
        for path in checkpoint.rglob("*")
        if path.is_file() and not path.name.startswith(".") and not path.name.endswith(".tmp")
    ]
    return sorted(finished) + [("offsets/0, unfinished", 0) for _ in checkpoint.glob("offsets/.0.*.tmp")]


def _log_sizes(data: Path) -> list[tuple[str, int]]:
    sizes = []
    for directory, _, names in os.walk(data):
        sizes += [
            (f"{directory}/{name}", os.stat(f"{directory}/{name}").st_size) for name in names if name.endswith(".log")
        ]
    return sorted(sizes)
