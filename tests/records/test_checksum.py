"""The checksum against the published check value, and over data in pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog.records.checksum import crc32c


def test_checksum_is_the_castagnoli_one():
    """RFC 3720 §B.4 and the catalogue of CRC algorithms: the check value of "123456789"."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA


@given(st.binary(), st.binary())
def test_checksum_goes_on_where_another_ended_whatever_holds_the_bytes(first, second):
    whole = crc32c(first + second)
    assert crc32c(second, crc32c(first)) == whole
    assert crc32c(memoryview(bytearray(second)), crc32c(bytearray(first))) == whole
