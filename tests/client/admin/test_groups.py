"""Groups as operators see them, asked of our broker and of Apache Kafka; more is in tests/cli/test_groups.py."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from harness.waiting import until
from oncelog.client import AsyncClient, BrokerRefused, Client, NewTopic, OffsetAndMetadata, TopicPartition
from oncelog.wire import ErrorCode


@pytest.fixture
def client(log):
    with Client(log.bootstrap_servers, call_timeout_ms=20_000) as client:
        yield client


@pytest.fixture
def group(client):
    """A group that has an offset, in a topic of its own name, and no members."""
    name = f"group-{uuid.uuid4().hex[:8]}"
    client.create_topics([NewTopic(name, 1)])
    client.commit_offsets(name, {TopicPartition(name, 0): OffsetAndMetadata(0)})
    return name


def test_group_is_listed_described_and_forgotten(client, group):
    (listed,) = [item for item in client.list_groups() if item.group == group]
    assert (listed.type, listed.state) == ("classic", "Empty")
    assert group in {item.group for item in client.list_groups(states=["Empty"], types=["classic"])}
    described = client.describe_group(group)
    assert (described.type, described.state, described.members) == ("classic", "Empty", ())
    client.delete_offsets(group, [TopicPartition(group, 0)])
    assert client.committed_offsets(group) == {}


def test_group_that_is_not_there_is_dead_and_cannot_be_deleted(client):
    name = f"nobody-{uuid.uuid4().hex[:8]}"
    assert client.describe_group(name).state == "Dead"
    with pytest.raises(BrokerRefused) as raised:
        client.delete_group(name)
    assert raised.value.error is ErrorCode.group_id_not_found


def test_async_client_sees_what_the_blocking_one_sees(log, client, group):
    async def ask():
        async with AsyncClient(log.bootstrap_servers) as other:
            seen = await other.list_groups(), await other.describe_group(group)
            await other.delete_offsets(group, [TopicPartition(group, 0)])
            return seen

    listed, described = asyncio.run(ask())
    assert group in {item.group for item in listed}
    assert (described.group, described.state) == (group, "Empty")
    assert client.committed_offsets(group) == {}


@pytest.mark.parametrize("kind", ["oncelog", pytest.param("kafka", marks=pytest.mark.jvm)])
def test_offset_that_says_how_long_it_is_kept_goes_then_and_the_others_stay(request, kind):
    """KIP-211: the retention of an OffsetCommit before version 5 beats the broker's, which is 7 days here."""
    node = request.getfixturevalue(f"new_{kind}")(**{"offsets.retention.check.interval.ms": "100"})
    kept, short = TopicPartition("kept", 0), TopicPartition("short", 0)
    with Client(node.bootstrap_servers) as client:
        client.create_topics([NewTopic(item.topic, 1) for item in (kept, short)])
        client.commit_offsets("group", {kept: OffsetAndMetadata(1)})
        client.commit_offsets("group", {short: OffsetAndMetadata(2)}, retention_ms=1)
        until(lambda: client.committed_offsets("group").keys() == {kept})
