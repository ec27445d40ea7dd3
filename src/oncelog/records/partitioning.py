"""Which partition a keyed record belongs to: the Java client's rule, and librdkafka's. Both must agree for ever."""

from __future__ import annotations

from zlib import crc32

_MASK = 0xFFFF_FFFF
_MULTIPLIER = 0x5BD1_E995
_SEED = 0x9747_B28C
_POSITIVE = 0x7FFF_FFFF


def murmur2(key: bytes) -> int:
    """The 32-bit hash of the Java client's default partitioner, unsigned."""
    whole = len(key) & ~3
    hashed = _SEED ^ len(key)
    for position in range(0, whole, 4):
        word = int.from_bytes(key[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER & _MASK) ^ word
    if whole != len(key):
        hashed = (hashed ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


def murmur2_partition(key: bytes, partition_count: int) -> int:
    """Where the Java client puts a key: the hash without its sign bit, modulo the number of partitions."""
    return (murmur2(key) & _POSITIVE) % partition_count


def crc32_partition(key: bytes, partition_count: int) -> int:
    """Where librdkafka's partitioner "consistent" puts a key."""
    return crc32(key) % partition_count
