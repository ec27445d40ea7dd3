"""What is fuzzed: each target takes any bytes, and raises nothing but what its subject may raise.

A target checks more than that nothing breaks: what one part has accepted, the next can read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress

from harness.log_on_memory_disk import DIRECTORY
from harness.manual_clock import ManualClock
from harness.memory_disk import MemoryDisk
from oncelog.broker.apis import APIS
from oncelog.cluster.messages import VERSIONS
from oncelog.environment import DiskError
from oncelog.log import LONG_MAX, LogConfig, LogDigest, Origin, PartitionLog, open_log
from oncelog.records import (
    HEADER_BYTES,
    Codec,
    ControlType,
    Effort,
    Form,
    Record,
    RecordsError,
    batches,
    build_batch,
    check_batch,
    control_batch,
    crc32c,
    crc_is_valid,
    decode_batch,
    prepare,
    read_control,
    read_header,
)
from oncelog.records.compression import compress, decompress
from oncelog.records.kept import body_of, keyed_records
from oncelog.wire import (
    TooManyItemsError,
    WireError,
    decode_request,
    message_class,
    read_request_header,
    skip_tagged_fields,
)
from tests.chaos.fuzzed_frames import RandomFrames

ITEMS_MAX = 2000
DECOMPRESSED_MAX = 1024 * 1024
CRC_AT, CRC_FROM = 17, 21
FILES = ("log", "index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint")
BASE = f"{0:020d}"
NAMES = {name: name if name == FILES[-1] else f"{BASE}.{name}" for name in FILES}
SETTINGS = struct.Struct(">BHHH")
"""Which checksums are put right and how the stop was, the recovery point, the log start, and where the snapshot is."""
CLEAN, CHECKSUMS, GAPS, DIGEST = 1, 2, 4, 8
SIZE = struct.Struct(">H")


def frames(data: bytes) -> None:
    """A request, header and body, in every version that is served to clients or to other brokers."""
    frame = memoryview(data)
    with suppress(WireError):
        header = read_request_header(frame)
        if header.version not in versions_of(header.api_key):
            return
        kind = message_class(header.api_key, header.version, "request")
        position = skip_tagged_fields(frame, header.end) if kind.__flexible__ else header.end
        with suppress(TooManyItemsError):
            decode_request(kind, frame, position, ITEMS_MAX)


def versions_of(api_key: int) -> range:
    api = APIS.get(api_key)
    return VERSIONS.get(api_key, range(0)) if api is None else range(api.minimum, api.maximum + 1)


def record_batches(data: bytes) -> None:
    """A batch that a client produces: what is accepted can be read, and is what is stored."""
    batch = whole(data)
    with suppress(RecordsError):
        for position, header in batches(batch):
            crc_is_valid(batch, position, header)
            decode_batch(batch, position)
    with suppress(RecordsError):
        read_control(batch)
    for form in (Form(DECOMPRESSED_MAX), Form(DECOMPRESSED_MAX, needs_keys=True), Form(DECOMPRESSED_MAX, Codec.ZSTD)):
        with suppress(RecordsError):
            prepared = prepare(batch, form, Effort.SMALL)
            if prepared is not None:
                stored = decode_batch(prepared.batch)
                assert len(stored) == prepared.header.record_count
                assert stored == decode_batch(batch)
    with suppress(RecordsError):
        header = check_batch(batch)
        records = decode_batch(batch)
        keyed = keyed_records(header, body_of(header, batch, 0))
        assert [one.key for one in records] == [one.key for one in keyed]
        assert [one.offset for one in records] == [header.base_offset + one.offset_delta for one in keyed]


def compressed(data: bytes) -> None:
    """A payload under each codec: it never takes more room than it is given, and what is read is written again."""
    codec = Codec(data[0] % len(Codec)) if data else Codec.NONE
    try:
        body = decompress(codec, memoryview(data)[1:], DECOMPRESSED_MAX)
    except RecordsError:
        return
    assert len(body) <= DECOMPRESSED_MAX
    assert decompress(codec, compress(codec, body), DECOMPRESSED_MAX) == body


def recovery(data: bytes) -> None:
    """Any files as a partition's directory: it is refused with a sentence, or a log that can be written and is the same again."""
    if len(data) < SETTINGS.size:
        return
    flags, recovery_point, log_start, snapshot_offset = SETTINGS.unpack_from(data)
    disk, clock = MemoryDisk(), ManualClock()
    disk.make_directory(DIRECTORY)
    for name, content in files_of(data):
        if name == "log" and flags & CHECKSUMS:
            content = with_checksums(content)
        file_name = f"{snapshot_offset:020d}.snapshot" if name == "snapshot" else NAMES[name]
        disk.open(f"{DIRECTORY}/{file_name}", create=True).append([content])

    def opened(
        *, was_clean: bool, recovery_point: int, log_start: int, digest: LogDigest | None = None
    ) -> PartitionLog:
        return open_log(
            disk,
            clock,
            DIRECTORY,
            "orders",
            0,
            LogConfig(),
            was_clean=was_clean,
            recovery_point=recovery_point,
            log_start_offset=log_start,
            leader_epoch=7,
            aborted=digest,
            gaps_below=LONG_MAX if flags & GAPS else 0,
        )

    digest = LogDigest(recovery_point) if flags & DIGEST else None
    try:
        log = opened(was_clean=bool(flags & CLEAN), recovery_point=recovery_point, log_start=log_start, digest=digest)
        read_all(log)
        batch = build_batch([Record(b"key", b"value", (), 5)])
        log.append(batch, check_batch(batch), Origin.CLIENT)
        log.close()
    except DiskError:
        return
    again = opened(was_clean=True, recovery_point=log.log_end_offset, log_start=log.log_start_offset)
    assert again.recovery.was_clean, "a log that was closed is not read again"
    assert (again.log_start_offset, again.log_end_offset) == (log.log_start_offset, log.log_end_offset)
    read_all(again)


def read_all(log: PartitionLog) -> None:
    """As readers and coordinators do. Raises DiskError for what is damaged."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        before, (_, offset) = offset, log.read(offset, 1000, log.log_end_offset)
        assert offset > before, "a reader gets on"
    for _ in log.batches():
        pass
    log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    log.offset_for_timestamp(1, log.log_end_offset)
    log.max_timestamp()
    log.digest()


TARGETS: dict[str, Callable[[bytes], None]] = {
    "frames": frames,
    "batches": record_batches,
    "compressed": compressed,
    "recovery": recovery,
}


def whole(data: bytes) -> bytes:
    """The bytes as one batch whose length and checksum are right: no fuzzer would find those."""
    if len(data) < HEADER_BYTES:
        return data
    batch = bytearray(data)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">I", batch, CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))
    return bytes(batch)


def with_checksums(log: bytes) -> bytes:
    """The bytes with the checksum of every batch put right."""
    data, position = bytearray(log), 0
    while position + HEADER_BYTES <= len(data):
        size = read_header(data, position).size_bytes
        if size < HEADER_BYTES or position + size > len(data):
            break
        struct.pack_into(">I", data, position + CRC_AT, crc32c(bytes(data[position + CRC_FROM : position + size])))
        position += size
    return bytes(data)


def files_of(data: bytes) -> Iterator[tuple[str, bytes]]:
    position = SETTINGS.size
    for name in FILES:
        if position + SIZE.size > len(data):
            return
        (size,) = SIZE.unpack_from(data, position)
        position += SIZE.size
        yield name, data[position : position + size]
        position += size


def seeds(target: str) -> Iterator[bytes]:
    """What a fuzzer begins with: bytes that are right."""
    if target == "frames":
        drawn = RandomFrames(1, [])
        yield from (drawn.frame()[4:] for _ in range(300))
        between_brokers = RandomFrames(2, [], apis=VERSIONS)
        yield from (between_brokers.frame()[4:] for _ in range(100))
    elif target == "batches":
        yield from _batches()
    elif target == "compressed":
        for body in (b"", b"a", bytes(5000), bytes(range(256)) * 20):
            yield from (bytes((codec,)) + compress(codec, body) for codec in Codec)
    else:
        yield from _directories()


def _batches() -> Iterator[bytes]:
    few = [Record(b"k", b"v", (("h", b"x"), ("n", None)), 5), Record(None, None, (), 6)]
    many = [Record(b"%d" % number, bytes(number % 5), (), number) for number in range(200)]
    for codec in Codec:
        yield build_batch(few, codec=codec)
        yield build_batch(many, codec=codec, producer_id=4, producer_epoch=1, base_sequence=0, transactional=True)
    yield control_batch(ControlType.ABORT, 4, 1, 0, 7)


def _directories() -> Iterator[bytes]:
    for was_clean in (False, True):
        disk, clock = MemoryDisk(), ManualClock()
        log = open_log(
            disk, clock, DIRECTORY, "orders", 0, LogConfig(index_interval_bytes=100), was_clean=False, recovery_point=0
        )
        for number in range(8):
            batch = build_batch(
                [Record(b"k", bytes(60), (), number)],
                producer_id=number % 3,
                producer_epoch=0,
                base_sequence=number // 3,
                transactional=True,
            )
            log.append(batch, check_batch(batch), Origin.CLIENT, verified=True)
        log.append_marker(ControlType.ABORT, 0, 0, 0, 1, 9)
        log.append_marker(ControlType.COMMIT, 1, 0, 0, 1, 9)
        log.advance_high_watermark(log.log_end_offset)
        log.close(clean=was_clean)
        parts = []
        for name in FILES:
            path = f"{DIRECTORY}/{f'{log.log_end_offset:020d}.snapshot' if name == 'snapshot' else NAMES[name]}"
            content = disk.read_file(path) if disk.exists(path) else b""
            parts.append(SIZE.pack(len(content)) + content)
        for flags in (0, CLEAN, CHECKSUMS, CHECKSUMS | GAPS, CLEAN | DIGEST):
            end = log.log_end_offset
            yield SETTINGS.pack(flags, end if flags & CLEAN else 0, 0, end) + b"".join(parts)
