from __future__ import annotations

import pytest
from aiokafka.partitioner import murmur2 as murmur2_of_aiokafka  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from oncelog.records.record import crc32_partition, murmur2, murmur2_partition


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hash_is_that_of_the_java_client(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFF_FFFF


@given(st.binary(max_size=100))
def test_hash_is_that_of_another_implementation(key: bytes) -> None:
    assert murmur2(key) == murmur2_of_aiokafka(key)


@given(st.binary(max_size=100), st.integers(1, 1000))
def test_partition_is_one_of_those_there_are(key: bytes, partition_count: int) -> None:
    assert murmur2_partition(key, partition_count) in range(partition_count)
    assert crc32_partition(key, partition_count) in range(partition_count)


def test_crc32_partition_is_the_checksum_modulo_the_partitions() -> None:
    assert crc32_partition(b"123456789", 2**32) == 0xCBF43926
