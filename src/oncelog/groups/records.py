"""The records of `__consumer_offsets`: what kind each is, its key says with its first two bytes."""

from __future__ import annotations

from oncelog.coordination.fields import FieldReader
from oncelog.groups.classic.metadata import KEY_VERSION as GROUP_KEY_VERSION
from oncelog.groups.classic.metadata import GroupMetadataRecord, decode_metadata, encode_metadata
from oncelog.groups.offset_records import OFFSET_KEY_VERSIONS, OffsetRecord, decode_offset, encode_offset
from oncelog.records import Record
from oncelog.wire import WireError

GroupRecord = OffsetRecord | GroupMetadataRecord


def encode(record: GroupRecord) -> Record:
    return encode_offset(record) if isinstance(record, OffsetRecord) else encode_metadata(record)


def decode(record: Record) -> GroupRecord | None:
    """None for what is neither, or of a version that is not known. Raises WireError for broken bytes."""
    if record.key is None:
        raise WireError("a record of the offsets topic without a key")
    key = FieldReader(record.key)
    version = key.int16()
    if version in OFFSET_KEY_VERSIONS:
        return decode_offset(key, record)
    return decode_metadata(key.string(), record) if version == GROUP_KEY_VERSION else None
