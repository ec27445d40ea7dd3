"""The records of `__consumer_offsets`: what kind each is, its key says with its first two bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from oncelog.coordination.fields import FieldReader
from oncelog.groups.classic.metadata import KEY_VERSION as GROUP_KEY_VERSION
from oncelog.groups.classic.metadata import GroupMetadataRecord, decode_metadata, encode_metadata
from oncelog.groups.offset_records import OFFSET_KEY_VERSIONS, OffsetRecord, decode_offset, encode_offset
from oncelog.records import Record
from oncelog.wire import WireError

if TYPE_CHECKING:
    from oncelog.groups.consumer.records import ConsumerRecord

GroupRecord: TypeAlias = "OffsetRecord | GroupMetadataRecord | ConsumerRecord"

CONSUMER_KEY_VERSIONS = (3, 4, 5, 6, 7, 8, 16)


def encode(record: GroupRecord) -> Record:
    if isinstance(record, OffsetRecord):
        return encode_offset(record)
    if isinstance(record, GroupMetadataRecord):
        return encode_metadata(record)
    # Imported when there are any: a broker without consumer groups starts without them.
    from oncelog.groups.consumer.records import encode_consumer

    return encode_consumer(record)


def decode(record: Record) -> GroupRecord | None:
    """None for what is of a kind or version that is not known. Raises WireError for broken bytes."""
    if record.key is None:
        raise WireError("a record of the offsets topic without a key")
    key = FieldReader(record.key)
    version = key.int16()
    if version in OFFSET_KEY_VERSIONS:
        return decode_offset(key, record)
    if version in CONSUMER_KEY_VERSIONS:
        from oncelog.groups.consumer.records import decode_consumer

        return decode_consumer(version, key, record)
    return decode_metadata(key.string(), record) if version == GROUP_KEY_VERSION else None


def decode_of_member(record: Record) -> GroupRecord | None:
    """The same in a cluster over ZooKeeper, which has no consumer groups: Kafka 3.9 leaves out what is of them, too."""
    if record.key is not None and FieldReader(record.key).int16() in CONSUMER_KEY_VERSIONS:
        return None
    return decode(record)
