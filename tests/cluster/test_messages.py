"""The messages of a cluster over ZooKeeper: what Kafka 3.9's own classes write and read is the referee.

`vectors.txt` has what they wrote, and what brokers of 3.9 sent each other; so the tests need no Java. Those that have it let
Kafka's classes read many more.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import kafka_messages
from harness.kafka_messages import in_kafkas_json
from oncelog.cluster.messages import ITEMS_MAX, UPDATE_METADATA, VERSIONS
from oncelog.wire import (
    FRAME_LENGTH,
    TooManyItemsError,
    WireError,
    api_name,
    decode_answer,
    decode_request,
    encode,
    encode_answer,
    encode_request,
    message_class,
    message_module,
    read_answer_header,
    read_request_header,
    skip_tagged_fields,
    unsigned_varint,
)
from tests.wire.random_messages import RandomMessages

VECTORS = Path(__file__).parent / "vectors.txt"
CAPTURED = Path(__file__).parent / "captured.txt"
SHARED = {1: range(4, 18), 2: range(1, 10), 23: range(2, 5), 27: range(1, 2), 56: range(2, 4), 67: range(1)}
"""What brokers also say to each other, and the codec still has: here it must be what it was in 3.9."""
MESSAGES = [
    (api_key, version, kind)
    for api_key, versions in (VERSIONS | SHARED).items()
    for version in versions
    for kind in ("request", "response")
    if (api_key, kind) != (1, "response")
]
RANDOM_EACH = 12


class Vector(NamedTuple):
    """A message's name as Kafka has it, its version, its bytes, and the fields that Kafka finds in them."""

    name: str
    version: int
    data: bytes
    fields: Any

    @property
    def message(self) -> Any:
        kind = "request" if self.name.endswith("Request") else "response"
        api_key = next(key for key in VERSIONS if api_name(key) + kind.capitalize() == self.name)
        return message_class(api_key, self.version, kind)


def vectors() -> list[Vector]:
    found = []
    for line in VECTORS.read_text().splitlines():
        if not line.startswith("#"):
            name, version, data, fields = line.split(" ", 3)
            found.append(Vector(name, int(version), bytes.fromhex(data), json.loads(fields)))
    return found


def captured() -> list[tuple[memoryview, memoryview, Any, Any]]:
    """Requests and answers with their headers, and the fields of both; None for those of records."""
    found = []
    for line in CAPTURED.read_text().splitlines():
        if not line.startswith("#"):
            request, answer, fields = line.split(" ", 2)
            found.append((*map(memoryview, (bytes.fromhex(request), bytes.fromhex(answer))), *json.loads(fields)))
    return found


def written(entity: Any) -> bytes:
    return b"".join(map(bytes, encode(entity)))


def decoded(vector: Vector, data: bytes) -> Any:
    """Raises WireError."""
    if vector.name.endswith("Request"):
        return decode_request(vector.message, memoryview(data))
    return decode_answer(vector.message, memoryview(data), 0)


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: f"{vector.name} v{vector.version}")
def test_bytes_that_kafka_wrote_are_read_and_written_as_they_are(vector):
    read = decoded(vector, vector.data)
    assert in_kafkas_json(read) == vector.fields
    assert written(read) == vector.data


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: f"{vector.name} v{vector.version}")
def test_message_that_is_cut_off_is_refused_wherever_it_is(vector):
    for stop in range(len(vector.data)):
        with pytest.raises(WireError):
            decoded(vector, vector.data[:stop])


@given(vector=st.sampled_from(vectors()), data=st.data())
def test_damaged_message_is_refused_or_read_and_takes_no_more_room_than_it_has(vector, data):
    """The codec would make room for as many items as a length says: some bytes could end the process."""
    damaged = bytearray(vector.data)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        edge = data.draw(st.sampled_from((b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0", b"\xff")))
        damaged[at : at + len(edge)] = edge
    with suppress(WireError):
        decoded(vector, bytes(damaged))


@pytest.mark.parametrize(
    ("request_frame", "answer_frame", "asked", "answered"),
    captured(),
    ids=lambda value: api_name(int.from_bytes(value[:2], "big")) if isinstance(value, memoryview) else "",
)
def test_what_brokers_sent_each_other_is_read_and_written_as_it_was(request_frame, answer_frame, asked, answered):
    header = read_request_header(request_frame)
    message = message_class(header.api_key, header.version, "request")
    body = decode_request(message, request_frame, skip_tagged_fields(request_frame, header.end))
    assert in_kafkas_json(body) == asked
    again = encode_request(header.api_key, header.version, header.correlation_id, header.client_id, body)
    assert b"".join(again)[FRAME_LENGTH.size :] == request_frame

    kind = message_class(header.api_key, header.version, "response")
    position = read_answer_header(kind, answer_frame, header.correlation_id, "the other broker")
    answer = decode_answer(kind, answer_frame, position)
    if answered is not None:
        assert in_kafkas_json(answer) == answered
    again = encode_answer(header.api_key, header.version, header.correlation_id, answer)
    assert b"".join(again)[FRAME_LENGTH.size :] == answer_frame


def test_every_message_and_version_has_a_vector():
    there = {(vector.name, vector.version) for vector in vectors()}
    assert there == {
        (api_name(api_key) + kind, version)
        for api_key, versions in VERSIONS.items()
        for version in versions
        for kind in ("Request", "Response")
    }


@pytest.mark.jvm
def test_vectors_are_what_kafkas_classes_write():
    there = vectors()
    assert kafka_messages.written([(one.name, one.version, one.fields) for one in there]) == [one.data for one in there]


@pytest.mark.jvm
def test_kafkas_classes_find_the_fields_that_were_written_and_write_the_same_bytes():
    entities = [
        (
            api_name(api_key) + kind.capitalize(),
            version,
            RandomMessages(seed, []).entity(message_class(*message), api_key),
        )
        for message in MESSAGES
        for api_key, version, kind in (message,)
        for seed in range(RANDOM_EACH)
    ]
    data = [written(entity) for _, _, entity in entities]
    fields = [in_kafkas_json(entity) for _, _, entity in entities]

    asked = [(name, version) for name, version, _ in entities]
    found = kafka_messages.read([(*one, bytes_of) for one, bytes_of in zip(asked, data, strict=True)])
    again = kafka_messages.written([(*one, fields_of) for one, fields_of in zip(asked, fields, strict=True)])

    for place, one in enumerate(asked):
        assert found[place] == fields[place], one
        assert again[place] == data[place], one


def test_controller_may_speak_of_more_partitions_than_a_client():
    """A broker that starts is told of every partition of its cluster in one UpdateMetadata."""
    types = message_module(UPDATE_METADATA, 8, "request")
    state = types.UpdateMetadataPartitionState(
        partition_index=0,
        controller_epoch=1,
        leader=1,
        leader_epoch=1,
        isr=(1, 2, 3),
        zk_version=1,
        replicas=(1, 2, 3),
        offline_replicas=(),
    )
    topic = types.UpdateMetadataTopicState(topic_name="t", topic_id=None, partition_states=(state,) * 20_000)
    request = types.UpdateMetadataRequest(controller_id=1, controller_epoch=1, topic_states=(topic,), live_brokers=())
    assert decode_request(types.UpdateMetadataRequest, memoryview(written(request))) == request


def test_controller_may_not_speak_of_more_than_there_is_room_for():
    types = message_module(UPDATE_METADATA, 8, "request")
    request = types.UpdateMetadataRequest(controller_id=1, controller_epoch=1, topic_states=(), live_brokers=())
    data = written(request)
    before, after = data[:-3], data[-2:]
    many = before + unsigned_varint(ITEMS_MAX + 2) + bytes(3 * ITEMS_MAX) + after
    with pytest.raises(TooManyItemsError):
        decode_request(types.UpdateMetadataRequest, memoryview(many))


def test_command_that_imports_no_broker_names_the_apis_of_a_cluster():
    program = "import oncelog.cli.broker_api_versions, oncelog.wire; print(oncelog.wire.api_name(4))"
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert printed.stdout == "LeaderAndIsr\n"
