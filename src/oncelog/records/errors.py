"""What is wrong with a record batch, each with the Kafka error code a broker answers."""

from __future__ import annotations

from typing import ClassVar

from oncelog.wire.errors import ErrorCode, WireError


class RecordsError(WireError):
    """The bytes are not a record batch that may be stored or read. `error` is the protocol's code for it."""

    error: ClassVar[ErrorCode] = ErrorCode.unknown_server_error


class CorruptBatchError(RecordsError):
    """Bytes are missing, or are not the ones that were written."""

    error = ErrorCode.corrupt_message


class DecompressedSizeError(CorruptBatchError):
    """The records become more bytes than the reader has room for."""


class RecordTooLargeError(RecordsError):
    """The batch is larger than its topic takes."""

    error = ErrorCode.message_too_large


class InvalidRecordError(RecordsError):
    """The bytes are what the producer sent, and a producer may not send them."""

    error = ErrorCode.invalid_record


class UnsupportedCompressionError(RecordsError):
    """The batch names a codec that does not exist."""

    error = ErrorCode.unsupported_compression_type
