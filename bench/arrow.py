"""Records per second between Arrow and record batches, one thread, for records of 100 bytes: no broker, no Spark.

Rows go in as a Spark task gets them, so many to an Arrow batch; results are dropped as a pipeline drops them.

python -m bench.arrow
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.measure import Measure, Side, at_least
from bench.program import Program, main
from oncelog.records import Codec
from oncelog.records.arrow import batches_to_arrow
from oncelog.records.from_arrow import arrow_to_batches

RECORDS = 2_000_000
KEY_BYTES, VALUE_BYTES = 10, 90
ROWS_PER_BATCH = 10_000
CHUNKS_PER_FETCH = 20
CODECS = (Codec.NONE, Codec.LZ4, Codec.ZSTD)
TIMESTAMP_MS = 1_700_000_000_000
UNIT = "M records/s"


def _measures() -> tuple[Measure, ...]:
    return tuple(
        Measure(f"{direction}, {codec.name.lower()}", UNIT, at_least(10) if codec is Codec.NONE else None)
        for codec in CODECS
        for direction in ("Arrow to batches", "batches to Arrow")
    )


class ArrowProgram(Program):
    name = "arrow"
    title = "Arrow and record batches, 100 B"
    peer = None
    measures = _measures()

    def open(self, side: Side) -> None:
        self._records = self.effort.amount(RECORDS)
        self._rows = sample(self._records).to_batches(max_chunksize=ROWS_PER_BATCH)
        # The kernels are compiled when they are called first.
        self._decode(self._fetched(Codec.NONE))

    def run(self, side: Side) -> Mapping[str, float]:
        found: dict[str, float] = {}
        for codec in CODECS:
            name = codec.name.lower()
            fetched = self._fetched(codec)
            found[f"Arrow to batches, {name}"] = self._rate(lambda codec=codec: self._encode(codec))
            found[f"batches to Arrow, {name}"] = self._rate(lambda fetched=fetched: self._decode(fetched))
        return found

    def _rate(self, work: Callable[[], int]) -> float:
        started = time.perf_counter()
        work()
        return self._records / (time.perf_counter() - started) / 1e6

    def _encode(self, codec: Codec) -> int:
        return sum(len(_encoded(batch, codec)) for batch in self._rows)

    def _decode(self, fetched: list[bytes]) -> int:
        # Every batch begins at offset 0 until a broker has stored it.
        rows = sum(batch.num_rows for batch in batches_to_arrow(fetched, "topic", 0, 0, self._records))
        assert rows == self._records
        return rows

    def _fetched(self, codec: Codec) -> list[bytes]:
        """The batches as they come from a broker: many in one answer."""
        chunks = [b"".join(_encoded(batch, codec)) for batch in self._rows]
        return [b"".join(chunks[at : at + CHUNKS_PER_FETCH]) for at in range(0, len(chunks), CHUNKS_PER_FETCH)]


def _encoded(batch: pa.RecordBatch, codec: Codec) -> list[bytes]:
    return arrow_to_batches(batch, timestamp_ms=TIMESTAMP_MS, codec=codec)


def sample(record_count: int) -> pa.Table:
    """Rows of a key of 10 bytes and a value of 90, of letters that repeat as they do in text."""
    random = np.random.default_rng(1)
    letters = random.choice(np.frombuffer(b'eeeettaaooiinnsshrdlu {}":,0123', np.uint8), record_count * 100)
    keys, values = (_fixed_size(letters, record_count, size_bytes) for size_bytes in (KEY_BYTES, VALUE_BYTES))
    return pa.table({"key": keys, "value": values})


def _fixed_size(letters: NDArray[np.uint8], item_count: int, size_bytes: int) -> Any:
    array = pa.Array.from_buffers(pa.binary(size_bytes), item_count, [None, pa.py_buffer(letters.data)])
    return array.cast(pa.binary())


if __name__ == "__main__":
    main([ArrowProgram])
