"""Record batches as bytes: headers, checks, control records, codecs, partitioners.

`oncelog.records.arrow` and `oncelog.records.from_arrow` are not imported here: they need the extra [spark].
"""

from fastcrc.crc32 import iscsi as crc32c

from oncelog.records.batch import (
    BATCH_BYTES_MAX,
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    SEQUENCE_MAX,
    BatchHeader,
    TimestampType,
    batches,
    build_batch,
    check_batch,
    crc_is_valid,
    decode_batch,
    next_sequence,
    read_header,
    sequence_before,
    stamp_producer,
    stamped,
)
from oncelog.records.compression import Codec
from oncelog.records.control import AbortedFilter, ControlType, EndTransactionMarker, control_batch, read_control
from oncelog.records.produced import Effort, Form, Prepared, prepare
from oncelog.records.record import (
    NO_TIMESTAMP,
    CorruptBatchError,
    InvalidRecordError,
    Record,
    RecordsError,
    UnsupportedCompressionError,
    murmur2_partition,
)

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
    "crc32c",
    "crc_is_valid",
    "decode_batch",
    "murmur2_partition",
    "next_sequence",
    "prepare",
    "read_control",
    "read_header",
    "sequence_before",
    "stamp_producer",
    "stamped",
]
