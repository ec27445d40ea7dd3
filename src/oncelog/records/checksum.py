"""CRC-32C, the checksum of record batches and of the log's own files."""

from __future__ import annotations

from fastcrc.crc32 import iscsi as crc32c

__all__ = ["crc32c"]
