"""What a streaming query's checkpoint says about a micro-batch: the end offsets of every source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OFFSET_LOG_VERSION = "v1"
NO_OFFSET = "-"
"""What the offset log holds for a source that has no offset yet."""


class CheckpointError(Exception):
    """The checkpoint does not say what a micro-batch reads."""


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """The lines of one micro-batch: where each source starts (None before its first offset) and ends."""

    batch_id: int
    start: list[str | None]
    end: list[str | None]

    @property
    def end_lines(self) -> list[str]:
        return [NO_OFFSET if line is None else line for line in self.end]


ReadFile = Callable[[str], str | None]
"""The text of a file of the checkpoint, named relative to its root, or None where there is none."""


def batch_offsets(read_file: ReadFile, batch_id: int) -> BatchOffsets:
    """The offsets of a micro-batch that is running or has run. Raises CheckpointError.

    Spark writes `offsets/N` before micro-batch N runs; N starts where N-1 ended. Where micro-batch 0 starts is in
    `sources/I/0`, which only sources write that say so themselves.
    """
    end = _offset_lines(read_file, batch_id)
    if end is None:
        raise CheckpointError(f"the checkpoint has no offsets of micro-batch {batch_id}")
    start: list[str | None] | None = _offset_lines(read_file, batch_id - 1) if batch_id > 0 else []
    if start is None:
        raise CheckpointError(f"the checkpoint has no offsets of micro-batch {batch_id - 1}")
    start += [None] * (len(end) - len(start))
    return BatchOffsets(batch_id, start, end)


def _offset_lines(read_file: ReadFile, batch_id: int) -> list[str | None] | None:
    text = read_file(f"offsets/{batch_id}")
    return None if text is None else parse_offset_log(text)


def parse_offset_log(text: str) -> list[str | None]:
    """The sources' lines of an `offsets/N` file. Raises CheckpointError."""
    lines = text.split("\n")
    if lines[0].strip() != OFFSET_LOG_VERSION:
        raise CheckpointError(f"the checkpoint's offset log has version {lines[0].strip()!r}, not {OFFSET_LOG_VERSION}")
    return [None if line.strip() == NO_OFFSET else line for line in lines[2:] if line.strip()]


def local_reader(root: str) -> ReadFile:
    """Read a checkpoint in a local directory."""

    def read(name: str) -> str | None:
        try:
            return Path(root, name).read_text()
        except FileNotFoundError:
            return None

    return read


def hadoop_reader(root: str, jvm: Any, configuration: Any) -> ReadFile:
    """Read a checkpoint wherever Spark can: HDFS, object stores, a local directory."""
    paths = jvm.org.apache.hadoop.fs.Path
    file_system = paths(root).getFileSystem(configuration)

    def read(name: str) -> str | None:
        path = paths(f"{root}/{name}")
        if not file_system.exists(path):
            return None
        stream = file_system.open(path)
        try:
            return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    return read


def checkpoint_reader(root: str, jvm: Any, configuration: Any) -> ReadFile:
    """The shortest way to a checkpoint's files: Python's own for a local directory, Hadoop's for the rest."""
    if root.startswith("file:"):
        return local_reader(root.removeprefix("file:").replace("///", "/", 1))
    return hadoop_reader(root, jvm, configuration)
