"""What the processes of a query load. Each of them loads it anew, and the first micro-batch waits for it."""

from __future__ import annotations

import subprocess
import sys

ENCODE_AND_DECODE = """
import pyarrow as pa
from oncelog.client import TopicPartition
from oncelog.records import Codec
from oncelog.records.arrow import batches_to_arrow
from oncelog.records.arrow_arrays import binary_array
from oncelog.spark.sink.encoding import RowEncoder, Targets

rows = pa.RecordBatch.from_arrays([binary_array([b"k", b"l", b"m"]), binary_array([b"1", b"2", b"3"])], ["key", "value"])
targets = Targets((TopicPartition("t", 0), TopicPartition("t", 1)))
encoder = RowEncoder(topic="t", targets=targets, codec=Codec.NONE, batch_bytes_max=10_000, rotation=0)
(encoded,) = encoder.encoded_rows([rows], 0)
batches = [bytes(item.as_buffer()) for item in encoded.column("batch")]
read = [batch for at, data in enumerate(batches) for batch in batches_to_arrow([data], "t", at, 0, 10, [])]
assert sum(batch.num_rows for batch in read) == 3
assert {topic for batch in read for topic in batch.column("topic").to_pylist()} == {"t"}
"""

CHECK_OPTIONS = """
import oncelog.spark.data_source
from oncelog.spark.options.source_options import check_options
check_options({"kafka.bootstrap.servers": "h:1", "subscribePattern": "a.*"})
"""

START_A_SINK = "import oncelog.spark.sink.output"


def loaded_by(program: str) -> set[str]:
    ending = "\nimport sys; print(*{'pandas', 'numba', 'kio'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program + ending], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_task_that_reads_and_encodes_loads_no_pandas() -> None:
    assert loaded_by(ENCODE_AND_DECODE) == {"numba", "kio"}


def test_driver_whose_tasks_encode_loads_no_compiler() -> None:
    assert loaded_by(START_A_SINK) == {"kio"}


def test_process_that_checks_options_loads_no_messages() -> None:
    """Spark starts it for load() alone. The one that reads loads them anyway."""
    assert loaded_by(CHECK_OPTIONS) == set()


def test_driver_that_may_have_to_encode_is_ready_when_it_does() -> None:
    """Rows are encoded by the driver from the second micro-batch on, which would wait for the compiler."""
    program = """
import oncelog.records.arrow
from oncelog.spark.sink.output import load_kernels
load_kernels()
import sys
before = set(sys.modules)
"""
    assert loaded_by(program + ENCODE_AND_DECODE + "assert set(sys.modules) == before") == {"numba", "kio"}
