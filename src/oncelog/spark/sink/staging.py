"""Encoded rows on their way from the tasks of a Python data source to the process that sends them.

Few travel inside a task's message. More would fill the driver's memory, so they wait in a file that the message names.
Only the messages of attempts that won reach the driver: what the others have left is removed with the directory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from oncelog.spark.options.locations import LOCAL, scheme_and_path
from oncelog.spark.options.table import OptionError

INLINE_BYTES_MAX = 128 * 1024
"""The messages of a thousand tasks are 128 MB in the driver's memory."""


class StagingError(Exception):
    """Encoded rows could not be put aside, or are not there any more."""


@dataclass(frozen=True, slots=True)
class StagedRows:
    """What one task encoded: an Arrow stream, in the message itself or in a file."""

    inline: bytes | None
    path: str | None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, as much at a time as was encoded together. Raises StagingError."""
        try:
            with pa.BufferReader(self.inline) if self.path is None else pa.OSFile(self.path) as source:
                yield from pa.ipc.open_stream(source)
        except (OSError, pa.ArrowInvalid) as error:
            raise StagingError(f"rows that a task had encoded cannot be read any more: {error}") from None


@dataclass(frozen=True, slots=True)
class Staging:
    """The directory of one write. The driver makes it: where a task does not find it, it cannot be shared."""

    directory: str

    def keep(self, rows: Iterator[pa.RecordBatch], schema: pa.Schema) -> StagedRows:
        """Put a task's encoded rows aside. Raises StagingError."""
        few: list[pa.RecordBatch] = []
        size_bytes = 0
        for batch in rows:
            few.append(batch)
            size_bytes += batch.nbytes
            if size_bytes > INLINE_BYTES_MAX:
                return StagedRows(None, self._write(chain(few, rows), schema))
        sink = pa.BufferOutputStream()
        _write_stream(sink, few, schema)
        return StagedRows(sink.getvalue().to_pybytes(), None)

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def _write(self, rows: Iterator[pa.RecordBatch], schema: pa.Schema) -> str:
        if not Path(self.directory).is_dir():
            raise StagingError(
                f"a task has encoded more than {INLINE_BYTES_MAX} bytes, and has no directory in common with the driver to "
                "put them: set option stagingLocation to one that all nodes and the driver see"
            )
        path = str(Path(self.directory, f"{uuid4().hex}.arrow"))
        try:
            with pa.OSFile(path, "wb") as sink:
                _write_stream(sink, rows, schema)
        except OSError as error:
            raise StagingError(f"encoded rows cannot be put into {self.directory}: {error}") from None
        return path


def _write_stream(
    sink: pa.NativeFile, rows: Iterator[pa.RecordBatch] | list[pa.RecordBatch], schema: pa.Schema
) -> None:
    with pa.ipc.new_stream(sink, schema) as stream:
        for batch in rows:
            stream.write_batch(batch)


def staging_root(location: str | None) -> Path:
    """The directory under which writes put rows aside. Raises OptionError."""
    if location is None:
        return Path(tempfile.gettempdir(), f"oncelog-staging-{os.getuid()}")
    scheme, path = scheme_and_path(location)
    if scheme not in LOCAL:
        raise OptionError(
            f"option stagingLocation is a directory that all nodes and the driver see, not one in {scheme}:"
        )
    return Path(path)


def new_staging(root: Path, owner: str) -> Staging:
    """Make the directory of a write. What an earlier write of this owner has left there is removed. Raises StagingError."""
    place = root / hashlib.sha256(owner.encode()).hexdigest()[:32]
    directory = place / uuid4().hex
    shutil.rmtree(place, ignore_errors=True)
    try:
        directory.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise StagingError(f"no directory can be made under {root}: {error}") from None
    return Staging(str(directory))
