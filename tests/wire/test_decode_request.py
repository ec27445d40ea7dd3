"""Reading requests: lengths that their frame does not have, and nulls that the protocol does not know."""

from __future__ import annotations

import dataclasses
import types
from itertools import product

import pytest

from oncelog.broker.apis import APIS
from oncelog.cluster.messages import VERSIONS
from oncelog.wire import WireError, decode_request, encode, message_class
from oncelog.wire.lengths import end_of_lengths
from tests.chaos.fuzzed_frames import RandomFrames

REQUESTS = [(api.key, version) for api in APIS.values() for version in range(api.minimum, api.maximum + 1)]
REQUESTS += [(api_key, version) for api_key, versions in VERSIONS.items() for version in versions]


def versions_of(api_key: int) -> list[int]:
    return [version for key, version in REQUESTS if key == api_key]


def read(api_key: int, version: int, data: bytes) -> object:
    return decode_request(message_class(api_key, version, "request"), memoryview(data))


@pytest.mark.parametrize(("null", "version"), [(b"\xff\xff\xff\xff", 2), (b"\x00", 5)], ids=["classic", "compact"])
def test_null_array_at_the_top_is_refused(null, version):
    """ListTransactions v0's state_filters, and CreateTopics' topics, are arrays that must be there."""
    with pytest.raises(WireError, match="topics is null"):
        read(19, version, null + b"\0\0\0\1\0\0")


def test_null_array_further_in_is_refused():
    topic = b"\x02t" + b"\x00" + b"\x00"  # its partitions: null
    with pytest.raises(WireError, match="partitions is null"):
        read(23, 4, b"\xff\xff\xff\xff" + b"\x02" + topic + b"\x00")


@pytest.mark.parametrize(
    ("api_key", "version", "data"),
    [
        (19, 2, b"\x7f\xff\xff\xff" + bytes(50)),
        (19, 2, b"\x00\x00\x00\x06" + bytes(50)),
        (19, 5, b"\xff\xff\xff\xff\x1f" + bytes(50)),
        (19, 5, b"\xff\xff\xff\xff\xff\x1f" + bytes(50)),
        (9, 6, b"\x02g" + b"\x02" + b"\x02t" + b"\xff\xff\xff\xff\x1f" + bytes(50)),
        (60, 0, b"\x00" + b"\xff\xff\xff\xff\x1f"),
        (22, 0, b"\x7f\xff" + bytes(50)),
        (22, 2, b"\xff\xff\xff\xff\x1f" + bytes(50)),
    ],
    ids=["classic", "six items", "compact", "six bytes of length", "further in", "tags", "string", "compact string"],
)
def test_length_that_the_frame_does_not_have_is_refused_before_room_is_made_for_it(api_key, version, data):
    """The codec would ask for 70 GB, and the process would end."""
    with pytest.raises(WireError):
        read(api_key, version, data)


LONGEST = 2**15 - 1


def group_named(length: int) -> bytes:
    """A Heartbeat v4 with a group id of so many bytes; 32767 and 32768 have the same three bytes of length, one more each."""
    size = length + 1
    varint = bytes((size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14))
    return varint + b"g" * length + b"\0\0\0\1" + b"\x02m" + b"\x00" + b"\x00"


def test_string_is_no_longer_than_two_bytes_of_length_can_say():
    """Flexible versions could carry more. Kafka takes no such request, and no record of a coordinator could hold it."""
    assert len(read(12, 4, group_named(LONGEST)).group_id) == LONGEST
    with pytest.raises(WireError, match="a string of 32768 bytes"):
        read(12, 4, group_named(LONGEST + 1))


@pytest.mark.parametrize(("api_key", "version"), [(8, 8), (11, 6), (22, 2)], ids=["commit", "join", "producer id"])
def test_string_that_is_too_long_is_refused_in_every_request(api_key, version):
    with pytest.raises(WireError, match="a string of 32768 bytes"):
        read(api_key, version, group_named(LONGEST + 1) + bytes(50))


@pytest.mark.parametrize("api_key", sorted({key for key, _ in REQUESTS}))
def test_look_at_the_lengths_ends_where_the_request_ends(api_key):
    """The look goes over the bytes that the codec reads, for random fields of every version."""
    for version in versions_of(api_key):
        frames = RandomFrames(api_key * 100 + version, [])
        kind = message_class(api_key, version, "request")
        for _ in range(20):
            body = b"".join(map(bytes, encode(frames.entity(kind, api_key))))
            assert end_of_lengths(kind, memoryview(body), 0) in (len(body), 0), version
            assert decode_request(kind, memoryview(body)) is not None, version
            for cut in range(len(body) if len(body) < 100 else 0):
                with pytest.raises(WireError):
                    decode_request(kind, memoryview(body)[:cut])


def test_null_array_that_means_all_is_read():
    body = read(3, 12, b"\x00" + b"\x01\x00" + b"\x00")
    assert body.topics is None


@pytest.mark.parametrize("api_key", sorted({key for key, _ in REQUESTS}))
def test_every_array_of_a_request_that_was_read_is_there(api_key):
    """Zeros are nulls in the flexible versions, ones are in the others."""
    fillers = (b"\x00", b"\xff", b"\x00\x02", b"\x02\x00", b"\x01")
    for version, filler in product(versions_of(api_key), fillers):
        try:
            body = read(api_key, version, filler * 200)
        except WireError:
            continue
        check(body)


def check(entity: object) -> None:
    for field in dataclasses.fields(entity):
        value = getattr(entity, field.name)
        may_be_null = isinstance(field.type, types.UnionType) or "None" in str(field.type)
        assert value is not None or may_be_null, field
        for item in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(item):
                check(item)
