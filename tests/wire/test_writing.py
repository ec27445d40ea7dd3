"""Writing messages: byte for byte what the codec that was generated from Kafka's schemas writes."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from kio.serial import entity_writer

from oncelog.broker.apis import APIS
from oncelog.cluster.messages import VERSIONS
from oncelog.wire import BytesInParts, EncodedItems, encode, message_class, message_module
from tests.wire.random_messages import RandomMessages

MESSAGES = [
    (api.key, version, kind)
    for api in APIS.values()
    for version in range(api.minimum, api.maximum + 1)
    for kind in ("request", "response")
] + [
    (api_key, version, kind)
    for api_key, versions in VERSIONS.items()
    for version in versions
    for kind in ("request", "response")
]


def by_codec(entity: object) -> bytes:
    written = io.BytesIO()
    entity_writer(type(entity))(written, entity)
    return written.getvalue()


@pytest.mark.parametrize("api_key", sorted({key for key, _, _ in MESSAGES}))
def test_message_is_written_as_the_codec_writes_it(api_key):
    for version, kind in [(version, kind) for key, version, kind in MESSAGES if key == api_key]:
        messages = RandomMessages(api_key * 100 + version, [])
        message = message_class(api_key, version, kind)
        for _ in range(10):
            entity = messages.entity(message, api_key)
            assert b"".join(map(bytes, encode(entity))) == by_codec(entity), (version, kind)
            header = messages.entity(message.__header_schema__, api_key)
            assert b"".join(map(bytes, encode(header))) == by_codec(header), (version, kind)


@pytest.mark.parametrize("version", [0, 12], ids=["classic", "compact"])
def test_items_that_are_encoded_already_are_written_as_the_items_are(version):
    types = message_module(3, version, "response")
    topics = tuple(RandomMessages(seed, []).entity(types.MetadataResponseTopic, 3) for seed in range(200))
    answer = RandomMessages(0, []).entity(types.MetadataResponse, 3)
    encoded = EncodedItems(len(topics), b"".join(map(bytes, encode(*topics))))
    assert b"".join(encode(replace(answer, topics=encoded))) == by_codec(replace(answer, topics=topics))


@pytest.mark.parametrize("version", [4, 16], ids=["classic", "compact"])
def test_field_in_parts_is_written_as_the_whole_is_and_none_of_them_is_copied(version):
    types = message_module(1, version, "response")
    parts = [bytes([number]) * size for number, size in enumerate((5000, 1, 70_000))]
    partition = replace(RandomMessages(0, []).entity(types.PartitionData, 1), records=b"".join(parts))
    in_parts = encode(replace(partition, records=BytesInParts(75_001, parts)))
    assert b"".join(in_parts) == by_codec(partition)
    assert any(chunk is parts[0] for chunk in in_parts)
    assert any(chunk is parts[2] for chunk in in_parts)


def test_large_field_is_handed_on_as_it_is():
    """The records of a Fetch answer are not copied."""
    types = message_module(1, 16, "response")
    records = bytes(100_000)
    partition = replace(RandomMessages(0, []).entity(types.PartitionData, 1), records=records)
    assert any(chunk is records for chunk in encode(partition))
