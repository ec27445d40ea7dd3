"""The checkpoint of a streaming query: the end offsets of every source for each micro-batch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

OFFSET_LOG_VERSION = "v1"
NO_OFFSET = "-"
"""The offset log's line for a source that has no offset yet."""
PARTITION_DEPTH = 3
"""The depth of the directory of a partition's state."""


class CheckpointError(Exception):
    """The checkpoint does not say what a micro-batch reads."""


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """The lines of one micro-batch: where each source starts (None before its first offset) and ends.

    `planned_ms` is when Spark decided so, in ms since 1970.
    """

    batch_id: int
    start: list[str | None]
    end: list[str | None]
    planned_ms: int

    @property
    def end_lines(self) -> list[str]:
        return [NO_OFFSET if line is None else line for line in self.end]


class CheckpointFiles(Protocol):
    """The files of a checkpoint, named relative to its root."""

    def read(self, name: str) -> str | None:
        """The text of a file; None where there is none."""
        ...

    def matching(self, pattern: str) -> set[str]:
        """The names of files and directories that match a pattern of a shell's kind."""
        ...


def batch_offsets(files: CheckpointFiles, batch_id: int) -> BatchOffsets:
    """The offsets of a micro-batch that is running or has run. Raises CheckpointError.

    Spark writes `offsets/N` before micro-batch N runs; N starts where N-1 ended. Where micro-batch 0 starts is in
    `sources/I/0`, which only sources write that say so themselves.
    """
    text = files.read(f"offsets/{batch_id}")
    if text is None:
        raise CheckpointError(f"the checkpoint has no offsets of micro-batch {batch_id}")
    end = parse_offset_log(text)
    start: list[str | None] | None = _offset_lines(files, batch_id - 1) if batch_id > 0 else []
    if start is None:
        raise CheckpointError(f"the checkpoint has no offsets of micro-batch {batch_id - 1}")
    start += [None] * (len(end) - len(start))
    return BatchOffsets(batch_id, start, end, _planned_ms(text))


def _offset_lines(files: CheckpointFiles, batch_id: int) -> list[str | None] | None:
    text = files.read(f"offsets/{batch_id}")
    return None if text is None else parse_offset_log(text)


def parse_offset_log(text: str) -> list[str | None]:
    """The sources' lines of an `offsets/N` file. Raises CheckpointError."""
    lines = text.split("\n")
    if lines[0].strip() != OFFSET_LOG_VERSION:
        raise CheckpointError(f"the checkpoint's offset log has version {lines[0].strip()!r}, not {OFFSET_LOG_VERSION}")
    return [None if line.strip() == NO_OFFSET else line for line in lines[2:] if line.strip()]


def _planned_ms(text: str) -> int:
    """From the second line of an `offsets/N` file, Spark's OffsetSeqMetadata. Raises CheckpointError."""
    try:
        return int(json.loads(text.split("\n")[1])["batchTimestampMs"])
    except (LookupError, ValueError, TypeError):
        raise CheckpointError("the checkpoint's offset log does not say when a micro-batch was planned") from None


def has_state_of(files: CheckpointFiles, batch_id: int) -> bool:
    """True if every partition of every stateful operator has the state after a micro-batch.

    Spark writes `state/OPERATOR/PARTITION/[STORE/]VERSION.KIND`, and the version after micro-batch N is N+1.
    """
    stores, before = _stores(files, batch_id + 1), _stores(files, batch_id)
    partitions = files.matching("state/*/[0-9]*")
    having = {"/".join(store.split("/")[:PARTITION_DEPTH]) for store in stores}
    return bool(stores) and before <= stores and partitions <= having


def _stores(files: CheckpointFiles, version: int) -> set[str]:
    """The directories that have a version of a state."""
    found = files.matching(f"state/*/[0-9]*/{version}.*") | files.matching(f"state/*/[0-9]*/*/{version}.*")
    return {name.rpartition("/")[0] for name in found}


class LocalFiles:
    """A checkpoint in a local directory."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def read(self, name: str) -> str | None:
        try:
            return (self._root / name).read_text()
        except FileNotFoundError:
            return None

    def matching(self, pattern: str) -> set[str]:
        return {found.relative_to(self._root).as_posix() for found in self._root.glob(pattern)}


class HadoopFiles:
    """A checkpoint wherever Spark can have one: HDFS, object stores, a local directory."""

    def __init__(self, root: str, jvm: Any, configuration: Any) -> None:
        self._root = root
        self._jvm = jvm
        self._paths = jvm.org.apache.hadoop.fs.Path
        self._file_system = self._paths(root).getFileSystem(configuration)

    def read(self, name: str) -> str | None:
        path = self._paths(f"{self._root}/{name}")
        if not self._file_system.exists(path):
            return None
        stream = self._file_system.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def matching(self, pattern: str) -> set[str]:
        depth = pattern.count("/") + 1
        found = self._file_system.globStatus(self._paths(f"{self._root}/{pattern}"))
        return {"/".join(str(status.getPath().toString()).split("/")[-depth:]) for status in found or ()}


def checkpoint_files(root: str, jvm: Any, configuration: Any) -> CheckpointFiles:
    """A local directory is read by Python, any other by Hadoop."""
    if root.startswith("file:"):
        return LocalFiles(root.removeprefix("file:").replace("///", "/", 1))
    return HadoopFiles(root, jvm, configuration)
