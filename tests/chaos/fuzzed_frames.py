"""Bytes that a client may send: requests of every API and version with random fields, and what becomes of them when broken.

Names come from small pools, so that requests meet topics, groups and transactional ids that are there. They are nobody
else's: a request that is valid may delete a topic or end a transaction, and is meant to.
"""

from __future__ import annotations

import dataclasses
import random
import struct
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from harness.batches import resealed
from oncelog.broker.apis import APIS
from oncelog.records import HEADER_BYTES, Codec, Record, build_batch, stamp_producer
from oncelog.records.compression import compress
from oncelog.wire import encode, message_class

TOPICS = tuple(f"fuzz-{number}" for number in range(4))
INTERNAL = ("__transaction_state", "__consumer_offsets")
NAMES = (*TOPICS, "", "no.such_topic", "x" * 300, "é/..")
READERS = frozenset({0, 1, 2, 3, 23, 32, 61})
"""The APIs that may name the coordinators' own topics: with them, no request can take anything from anybody."""
BOMB_BYTES = 32 * 1024 * 1024
INT_RANGES = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
PARTITION_COUNTS = (-(2**31), -2, -1, 0, 1, 2, 3, 2**31 - 1)
EDGES = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\x7f\xff", b"\xff\xff\x7f", b"\xff\xff\xff\xff\x1f")
"""Numbers at the end of their range, as integers and as lengths of flexible versions."""
SUBSCRIPTION = bytes.fromhex("0000 00000001 0006 66757a7a2d30 ffffffff")
COMPRESSED = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


class RandomFrames:
    """Endless frames, each with its length; the same seed gives the same ones.

    With `texts` every string of every request is one of these, and nobody's topics are spared. `apis` has the versions of
    what is asked; otherwise it is all that is served.
    """

    def __init__(
        self,
        seed: int,
        topic_ids: Sequence[uuid.UUID],
        texts: Sequence[str] = (),
        apis: Mapping[int, range] | None = None,
    ) -> None:
        self.chance = random.Random(seed)
        self._texts = texts
        self._topic_ids = (*topic_ids, uuid.UUID(int=0), uuid.UUID(int=1))
        served = {api.key: range(api.minimum, api.maximum + 1) for api in APIS.values()}
        self._requests = [(api_key, version) for api_key, versions in (apis or served).items() for version in versions]
        self._breakages: list[Callable[[bytearray], bytearray]] = [
            self._flip_bits,
            self._cut,
            self._repeat_a_part,
            self._put_an_edge,
            self._grow,
            self._say_another_api,
            self._replace_all,
        ]

    def frame(self) -> bytes:
        """A request, valid in two of three cases, with a length that is right nearly always."""
        payload = self._request(*self.chance.choice(self._requests))
        if self.chance.random() < 0.4:
            for _ in range(self.chance.randint(1, 3)):
                payload = self.chance.choice(self._breakages)(payload)
        size = len(payload)
        if self.chance.random() < 0.04:
            size = self.chance.choice((0, -1, -(2**31), 2**31 - 1, 104_857_601, 104_857_600, size + 1, size + 70_000))
        return struct.pack(">i", size) + payload

    # --- valid requests

    def request(self) -> bytes:
        """A request whose fields are all there, without a length."""
        return bytes(self._request(*self.chance.choice(self._requests)))

    def _request(self, api_key: int, version: int) -> bytearray:
        kind = message_class(api_key, version, "request")
        client_id = self.chance.choice((b"", b"fuzz", b"\xff\xfe", b"c" * 1000))
        if self._texts:
            client_id = self.chance.choice((b"__admin_client", b"c" * (2**15 - 1)))
        head = struct.pack(">hhih", api_key, version, self.chance.randint(-5, 5), len(client_id)) + client_id
        if kind.__flexible__:
            head += self.chance.choice((b"\0", b"\0", b"\0", b"\1\7\2ab"))
        return bytearray(head + b"".join(map(bytes, encode(self.entity(kind, api_key)))))

    def entity(self, kind: Any, api_key: int) -> Any:
        """A request, or a part of one, with random fields."""
        return kind(
            **{
                field.name: self._field(field, api_key)
                for field in dataclasses.fields(kind)
                if "tag" not in field.metadata or self.chance.random() < 0.3
            }
        )

    def _field(self, field: Any, api_key: int) -> Any:
        kind, wire_type = field.type, field.metadata.get("kafka_type")
        if isinstance(kind, types.UnionType):
            if wire_type not in ("records", "uuid") and self.chance.random() < 0.2:
                return None
            kind = next(arm for arm in typing.get_args(kind) if arm is not types.NoneType)
        if typing.get_origin(kind) is tuple:
            inner = typing.get_args(kind)[0]
            count = self.chance.choice((0, 1, 1, 2, 3, 30 if wire_type else 5))
            return tuple(self._value(field.name, inner, wire_type, api_key) for _ in range(count))
        return self._value(field.name, kind, wire_type, api_key)

    def _value(self, name: str, kind: Any, wire_type: str | None, api_key: int) -> Any:
        if wire_type is None:
            return self.entity(kind, api_key)
        if name == "num_partitions":
            return self.chance.choice(PARTITION_COUNTS)
        if wire_type in INT_RANGES:
            return self._number(INT_RANGES[wire_type])
        if wire_type.startswith("timedelta"):
            return timedelta(milliseconds=self.chance.choice((-1, 0, 1, 50, 1000, 60_000, 2**31 - 1)))
        if wire_type == "string":
            return self.chance.choice(self._texts or ((*NAMES, *INTERNAL) if api_key in READERS else NAMES))
        if wire_type == "uuid":
            return self.chance.choice(self._topic_ids)
        if wire_type == "bool":
            return self.chance.random() < 0.5
        if wire_type == "bytes":
            return self.chance.choice((b"", SUBSCRIPTION, self.chance.randbytes(self.chance.choice((1, 10, 1000)))))
        assert wire_type == "records", wire_type
        return self._records()

    def _number(self, bits: int) -> int:
        if self.chance.random() < 0.8:
            return self.chance.randint(-1, 4)
        return self.chance.choice((-(2**bits), 2**bits - 1, self.chance.randint(-(2**bits), 2**bits - 1)))

    def _records(self) -> bytes | None:
        """Batches as producers write them, and as nobody does."""
        case = self.chance.random()
        if case < 0.05:
            return self.chance.choice((None, b"", self.chance.randbytes(100)))
        batch = self._batch()
        if case < 0.5:
            return batch * self.chance.choice((1, 1, 1, 2))
        if case < 0.503:
            return _with_body(compress(Codec.GZIP, bytes(BOMB_BYTES)), Codec.GZIP)
        if case < 0.65:
            return _with_body(self.chance.randbytes(self.chance.randint(0, 500)), self.chance.choice(COMPRESSED))
        if case < 0.8:
            field = self.chance.choice(("base_offset", "leader_epoch", "magic", "attributes", "last_offset_delta"))
            return resealed(batch, **{field: self.chance.choice((-1, 1, 2, 16, 32, 127))})
        if case < 0.9:
            field = self.chance.choice(("batch_length", "record_count", "base_sequence"))
            return resealed(batch, **{field: self.chance.choice((-(2**31), -1, 0, 1, 2**31 - 1))})
        return bytes(self._flip_bits(bytearray(batch)))

    def _batch(self) -> bytes:
        records = [
            Record(self.chance.choice((None, b"k")), self.chance.randbytes(self.chance.choice((0, 10, 1000))))
            for _ in range(self.chance.choice((1, 1, 3, 50)))
        ]
        batch = build_batch(records, codec=self.chance.choice(tuple(Codec)))
        if self.chance.random() < 0.6:
            return batch
        producer_id, epoch, sequence = (self.chance.randint(0, 4) for _ in range(3))
        return bytes(stamp_producer(batch, producer_id, epoch, sequence, self.chance.random() < 0.5))

    # --- what breaks them

    def _place(self, payload: bytearray) -> int:
        """Anywhere, but rather near the front, where the lengths are."""
        return int(len(payload) * self.chance.random() ** 2)

    def _flip_bits(self, payload: bytearray) -> bytearray:
        for _ in range(self.chance.randint(1, 6)):
            if payload:
                payload[self._place(payload)] ^= 1 << self.chance.randrange(8)
        return payload

    def _cut(self, payload: bytearray) -> bytearray:
        return payload[: self._place(payload)]

    def _repeat_a_part(self, payload: bytearray) -> bytearray:
        start, stop = sorted((self._place(payload), self._place(payload)))
        return payload[:stop] + payload[start:]

    def _put_an_edge(self, payload: bytearray) -> bytearray:
        edge = self.chance.choice(EDGES)
        place = self._place(payload)
        payload[place : place + len(edge)] = edge
        return payload

    def _grow(self, payload: bytearray) -> bytearray:
        return payload + self.chance.randbytes(self.chance.choice((1, 100, 70_000)))

    def _say_another_api(self, payload: bytearray) -> bytearray:
        key, version = self.chance.choice((*APIS, -1, 4, 74, 32767)), self.chance.choice((-1, 0, 1, 14, 32767))
        return bytearray(struct.pack(">hh", key, version)) + payload[4:]

    def _replace_all(self, payload: bytearray) -> bytearray:
        return bytearray(self.chance.randbytes(len(payload)))


def _with_body(body: bytes, codec: Codec) -> bytes:
    """A batch that says its records are `body`, compressed, and whose CRC is right."""
    batch = build_batch([Record(None, None)])[:HEADER_BYTES] + body
    return resealed(batch, batch_length=len(batch) - 12, attributes=int(codec))
