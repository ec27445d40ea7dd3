"""A channel over real sockets, to our broker and to Apache Kafka."""

from __future__ import annotations

import asyncio
import signal
from datetime import timedelta
from typing import Any

from harness.names import unique
from oncelog.client import Client, NewTopic, Producer
from oncelog.cluster.channel import Channel, ChannelError, Failure
from oncelog.wire import ErrorCode, construct, message_class, message_module
from tests.cluster.channels_on_sockets import over, with_channel

METADATA, FETCH = 3, 1
TIMEOUT_MS = 30_000
MIB = 1024 * 1024


def metadata_request(version: int) -> Any:
    return construct(
        message_class(METADATA, version, "request"),
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def metadata(channel: Channel, timeout_ms: float = TIMEOUT_MS) -> asyncio.Future[Any]:
    return over(channel.ask_newest(METADATA, 9, 12, metadata_request, timeout_ms))


def fetch_request(topic: str, offset: int) -> Any:
    types = message_module(FETCH, 12, "request")
    partition = types.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=64 * MIB)
    return types.FetchRequest(
        replica_id=-1,
        max_wait=timedelta(seconds=1),
        min_bytes=1,
        max_bytes=64 * MIB,
        topics=(types.FetchTopic(topic=topic, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def test_many_requests_at_once_are_answered_each_with_its_own(log):
    topic = unique("channel")
    with Client(log.bootstrap_servers) as client:
        client.create_topics([NewTopic(topic, 1, 1)])
    with Producer(log.bootstrap_servers) as producer:
        for _ in range(24):
            producer.send(topic, bytes(256 * 1024), partition=0)
        producer.flush()

    async def play(channel: Channel) -> list[Any]:
        fetches = [over(channel.ask(FETCH, 12, fetch_request(topic, offset), TIMEOUT_MS)) for offset in (0, 23, 12)]
        return await asyncio.gather(metadata(channel), *fetches, metadata(channel))

    first, *fetched, last = with_channel(log, play)
    for answer in (first, last):
        (found,) = [one for one in answer.topics if one.name == topic]
        assert len(found.partitions) == 1
    sizes = [len(answer.responses[0].partitions[0].records) for answer in fetched]
    assert [answer.responses[0].partitions[0].error_code for answer in fetched] == [ErrorCode.none] * 3
    assert sizes[0] > 6 * MIB
    assert MIB > sizes[1] > 256 * 1024
    assert sizes[0] > sizes[2] > 3 * MIB


def test_version_that_the_broker_does_not_have_is_told_apart(log):
    async def play(channel: Channel) -> Any:
        return await over(channel.ask_newest(METADATA, 100, 200, metadata_request, TIMEOUT_MS))

    refused = with_channel(log, play)
    assert refused.failure is Failure.UNSUPPORTED
    assert "version 100 to 200" in refused.reason


def test_broker_that_is_killed_and_started_again_is_asked_again(new_oncelog):
    node = new_oncelog()

    async def play(channel: Channel) -> None:
        assert (await metadata(channel)).brokers
        node.send_signal(signal.SIGSTOP)
        silent = [metadata(channel), metadata(channel)]
        await asyncio.sleep(0.05)
        node.kill()
        for told in await asyncio.gather(*silent):
            assert told.failure is Failure.UNKNOWN
        told = await metadata(channel)
        assert told.failure is Failure.UNREACHABLE
        assert "refused the connection" in told.reason
        await asyncio.to_thread(node.start)
        while isinstance(told := await metadata(channel), ChannelError):
            assert not told.was_sent
        assert told.brokers

    with_channel(node, play)


def test_broker_that_stands_still_is_given_up_and_asked_over_another_connection(new_oncelog):
    node = new_oncelog()

    async def play(channel: Channel) -> None:
        assert (await metadata(channel)).brokers
        node.send_signal(signal.SIGSTOP)
        told = await metadata(channel, timeout_ms=200)
        assert told.failure is Failure.UNKNOWN
        node.send_signal(signal.SIGCONT)
        assert (await metadata(channel)).brokers

    with_channel(node, play)
