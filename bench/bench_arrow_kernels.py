"""Records per second between Arrow and record batches, one thread, for records of 100 bytes.

Rows go in as a Spark task gets them, so many to an Arrow batch; results are dropped as a pipeline drops them.

python bench/bench_arrow_kernels.py [--records N] [--rows-per-batch N] [--codec none|gzip|snappy|lz4|zstd] [--rounds N]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oncelog.records import Codec
from oncelog.records.arrow import arrow_to_batches, batches_to_arrow

KEY_BYTES = 10
VALUE_BYTES = 90
CHUNKS_PER_FETCH = 20


def sample(record_count: int) -> pa.Table:
    """Rows of a key of 10 bytes and a value of 90, of letters that repeat as they do in text."""
    random = np.random.default_rng(1)
    letters = random.choice(np.frombuffer(b'eeeettaaooiinnsshrdlu {}":,0123', np.uint8), record_count * 100)
    keys, values = (_fixed_size(letters, record_count, size_bytes) for size_bytes in (KEY_BYTES, VALUE_BYTES))
    return pa.table({"key": keys, "value": values})


def _fixed_size(letters: NDArray[np.uint8], item_count: int, size_bytes: int) -> Any:
    array = pa.Array.from_buffers(pa.binary(size_bytes), item_count, [None, pa.py_buffer(letters.data)])
    return array.cast(pa.binary())


def best_seconds(rounds: int, run: Callable[[], object]) -> float:
    """The shortest of several runs, after one that is not counted."""
    run()
    durations = []
    for _ in range(rounds):
        started = time.perf_counter()
        run()
        durations.append(time.perf_counter() - started)
    return min(durations)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--records", type=int, default=2_000_000)
    arguments.add_argument("--rows-per-batch", type=int, default=10_000)
    arguments.add_argument("--codec", choices=[codec.name.lower() for codec in Codec], default="none")
    arguments.add_argument("--rounds", type=int, default=5)
    chosen = arguments.parse_args()
    codec = Codec[chosen.codec.upper()]
    rows = sample(chosen.records).to_batches(max_chunksize=chosen.rows_per_batch)

    def encode_one(batch: pa.RecordBatch) -> list[bytes]:
        return arrow_to_batches(batch, timestamp_ms=1_700_000_000_000, codec=codec)

    fetched = [b"".join(encode_one(batch)) for batch in rows]
    fetched = [
        b"".join(fetched[first : first + CHUNKS_PER_FETCH]) for first in range(0, len(fetched), CHUNKS_PER_FETCH)
    ]

    def encode() -> int:
        return sum(len(encode_one(batch)) for batch in rows)

    def decode() -> int:
        # Every batch begins at offset 0 until a broker has stored it.
        return sum(batch.num_rows for batch in batches_to_arrow(fetched, "topic", 0, 0, chosen.records))

    assert decode() == chosen.records
    for name, run in (("Arrow to batches", encode), ("batches to Arrow", decode)):
        seconds = best_seconds(chosen.rounds, run)
        per_second = chosen.records / seconds
        print(f"{name}: {per_second / 1e6:.1f} M records/s, {per_second * 100 / 1e6:.0f} MB/s ({chosen.codec})")


if __name__ == "__main__":
    main()
