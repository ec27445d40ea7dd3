from __future__ import annotations

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.records.compression import XERIAL_HEADER, Codec, compress, decompress
from oncelog.records.record import CorruptBatchError

COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]


@given(st.sampled_from(Codec), st.binary(max_size=2000), st.integers(1, 200))
def test_decompressed_bytes_are_those_that_were_compressed(codec: Codec, data: bytes, repeats: int) -> None:
    assert decompress(codec, compress(codec, data * repeats)) == data * repeats


def is_corrupt_or_within(codec: Codec, data: bytes, size_bytes_max: int) -> bool:
    try:
        return len(decompress(codec, data, size_bytes_max)) <= size_bytes_max
    except CorruptBatchError:
        return True


@given(st.sampled_from(COMPRESSING), st.binary(max_size=300))
def test_garbage_is_corrupt_or_within_the_bound(codec: Codec, data: bytes) -> None:
    assert is_corrupt_or_within(codec, data, 1000)


@given(st.sampled_from(COMPRESSING), st.data())
def test_compressed_bytes_that_changed_are_corrupt_or_within_the_bound(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, data.draw(st.binary(min_size=1, max_size=500))))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    assert is_corrupt_or_within(codec, bytes(packed), 1000)


@pytest.mark.parametrize("codec", Codec)
def test_output_beyond_the_bound_is_refused(codec: Codec) -> None:
    packed = compress(codec, bytes(1_000_000))
    assert len(decompress(codec, packed, 1_000_000)) == 1_000_000
    with pytest.raises(CorruptBatchError):
        decompress(codec, packed, 999_999)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_block_that_is_cut_short_is_corrupt(codec: Codec) -> None:
    packed = compress(codec, bytes(range(256)) * 500)
    with pytest.raises(CorruptBatchError):
        decompress(codec, packed[:-10])


def test_snappy_is_written_in_xerial_frames_and_read_with_or_without() -> None:
    data = b"exactly once " * 10_000
    assert compress(Codec.SNAPPY, data).startswith(XERIAL_HEADER)
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


@pytest.mark.parametrize("tail", [b"\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x05abcd"])
def test_snappy_frame_with_a_wrong_length_is_corrupt(tail: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        decompress(Codec.SNAPPY, compress(Codec.SNAPPY, b"data") + tail)


def test_lz4_frame_says_that_its_blocks_stand_alone() -> None:
    """The Java client refuses a frame that does not."""
    assert compress(Codec.LZ4, bytes(200_000))[4] & 0x20


def test_gzip_of_several_members_is_read_whole() -> None:
    assert decompress(Codec.GZIP, compress(Codec.GZIP, b"one") + compress(Codec.GZIP, b"two")) == b"onetwo"
