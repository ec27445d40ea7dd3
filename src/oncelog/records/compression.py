"""The four codecs of a batch's records, which are compressed as one block.

Snappy is framed the way the first JVM clients did it (xerial): a 16-byte header, then blocks, each after its length as
a big-endian i32. Some clients send the bare block instead, so both are read.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

import cramjam
from typing_extensions import Buffer

from oncelog.records.record import CorruptBatchError, DecompressedSizeError

# A 1 MiB batch of zeros is a gigabyte in some codecs: the bound is what one batch may ask of the reader's memory.
DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024
OUTPUT_BYTES_MIN = 64 * 1024
OUTPUT_GROWTH = 8
# What cramjam says when the output has no room left, for which it has no type of its own.
OUTPUT_FULL = "failed to write whole buffer"
# What zstd and lz4 say, in words of their own, where the machine has no memory for their windows.
NO_MEMORY = ("not enough memory", "allocation_failed")
CODEC_BYTES = 16 * 1024 * 1024
"""A codec may take so much beside its output. Where it cannot have it, most of them end the process."""

# The level cramjam takes by itself is eight times slower, for eight per cent less.
LZ4_LEVEL = 1
GZIP_LEVEL = 6

LZ4_FLAGS_AT, LZ4_BLOCKS_STAND_ALONE = 4, 0x20

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = Struct(">i")


class Codec(IntEnum):
    """The compression codec in bits 0 to 2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress a batch's records as one block, at a level that the codec knows, or at ours."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, level=level if level is not None and level > 0 else GZIP_LEVEL))
        case Codec.SNAPPY:
            return _compress_xerial(memoryview(data))
        case Codec.LZ4:
            return _compress_lz4(data, LZ4_LEVEL if level is None else level)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=level))


def decompress(codec: Codec, data: Buffer, size_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Undo `compress`.

    Raises CorruptBatchError for bytes that the codec did not write, DecompressedSizeError for those that become more than
    `size_bytes_max`.
    """
    view = memoryview(data)
    match codec:
        case Codec.NONE:
            if len(view) > size_bytes_max:
                raise DecompressedSizeError(f"the records take {len(view)} bytes, more than {size_bytes_max}")
            return bytes(view)
        case Codec.SNAPPY:
            return _decompress_snappy(view, size_bytes_max)
        case Codec.GZIP:
            return _decompress_stream(cramjam.gzip, view, size_bytes_max)
        case Codec.LZ4:
            return _decompress_stream(cramjam.lz4, view, size_bytes_max)
        case Codec.ZSTD:
            return _decompress_stream(cramjam.zstd, view, size_bytes_max)


def lz4_blocks_stand_alone(data: Buffer) -> bool:
    """True if an lz4 frame says that its blocks do not depend on one another: the Java client reads no other."""
    view = memoryview(data)
    return len(view) > LZ4_FLAGS_AT and bool(view[LZ4_FLAGS_AT] & LZ4_BLOCKS_STAND_ALONE)


def _compress_lz4(data: Buffer, level: int) -> bytes:
    # See lz4_blocks_stand_alone.
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def _compress_xerial(data: memoryview) -> bytes:
    chunks = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        chunks.append(_BLOCK_LENGTH.pack(len(block)))
        chunks.append(block)
    return b"".join(chunks)


def _decompress_stream(codec: object, data: memoryview, size_bytes_max: int) -> bytes:
    """Decompress into a buffer of a likely size, and into larger ones as long as that fails and the bound allows.

    The output never outgrows its buffer, whatever the bytes ask for. Raises MemoryError.
    """
    size_bytes = max(OUTPUT_BYTES_MIN, OUTPUT_GROWTH * len(data))
    while True:
        output = bytearray(min(size_bytes, size_bytes_max))
        if len(output) >= CODEC_BYTES:
            # Python says that there is no memory.
            bytearray(CODEC_BYTES)
        try:
            written = codec.decompress_into(data, output)  # type: ignore[attr-defined]
        except cramjam.DecompressionError as error:
            if any(words in str(error) for words in NO_MEMORY):
                raise MemoryError(str(error)) from error
            if OUTPUT_FULL not in str(error):
                raise CorruptBatchError(f"the records do not decompress: {error}") from error
            if size_bytes >= size_bytes_max:
                raise DecompressedSizeError(f"the records decompress to more than {size_bytes_max} bytes") from error
            size_bytes *= OUTPUT_GROWTH
        else:
            return bytes(memoryview(output)[:written])


def _decompress_snappy(data: memoryview, size_bytes_max: int) -> bytes:
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _decompress_snappy_block(data, size_bytes_max)
    blocks: list[bytes] = []
    room = size_bytes_max
    position = len(XERIAL_HEADER)
    while position < len(data):
        start = position + _BLOCK_LENGTH.size
        if start > len(data):
            raise CorruptBatchError("a snappy block is cut short")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position = start + length
        if length < 0 or position > len(data):
            raise CorruptBatchError(f"a snappy block of {length} bytes is cut short")
        block = _decompress_snappy_block(data[start:position], room)
        room -= len(block)
        blocks.append(block)
    return b"".join(blocks)


def _decompress_snappy_block(data: memoryview, size_bytes_max: int) -> bytes:
    try:
        size_bytes = cramjam.snappy.decompress_raw_len(data)
        if size_bytes > size_bytes_max:
            raise DecompressedSizeError(f"the records decompress to more than {size_bytes_max} bytes")
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise CorruptBatchError(f"the records do not decompress: {error}") from error
