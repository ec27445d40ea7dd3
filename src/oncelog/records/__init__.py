"""Record batches as bytes: headers, checks, control records, codecs, partitioners.

The Arrow kernels are in `oncelog.records.arrow`, which is not imported here: it needs the extra [spark].
"""

from oncelog.records.aborted import AbortedFilter
from oncelog.records.batch import (
    BATCH_BYTES_MAX,
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    BatchHeader,
    TimestampType,
    batches,
    build_batch,
    check_batch,
    crc_is_valid,
    decode_batch,
    read_header,
    stamp_producer,
    stamped,
)
from oncelog.records.compression import Codec
from oncelog.records.control import ControlType, EndTransactionMarker, control_batch, read_control
from oncelog.records.errors import CorruptBatchError, InvalidRecordError, RecordsError, UnsupportedCompressionError
from oncelog.records.partitioning import crc32_partition, murmur2, murmur2_partition
from oncelog.records.produced import Effort, Form, Prepared, prepare
from oncelog.records.record import NO_TIMESTAMP, Record
from oncelog.records.sequence import NO_SEQUENCE, SEQUENCE_MAX, next_sequence, sequence_before

__all__ = [
    "BATCH_BYTES_MAX",
    "HEADER_BYTES",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "SEQUENCE_MAX",
    "AbortedFilter",
    "BatchHeader",
    "Codec",
    "ControlType",
    "CorruptBatchError",
    "Effort",
    "EndTransactionMarker",
    "Form",
    "InvalidRecordError",
    "Prepared",
    "Record",
    "RecordsError",
    "TimestampType",
    "UnsupportedCompressionError",
    "batches",
    "build_batch",
    "check_batch",
    "control_batch",
    "crc32_partition",
    "crc_is_valid",
    "decode_batch",
    "murmur2",
    "murmur2_partition",
    "next_sequence",
    "prepare",
    "read_control",
    "read_header",
    "sequence_before",
    "stamp_producer",
    "stamped",
]
