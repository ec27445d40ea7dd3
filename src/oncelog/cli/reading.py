"""Reading what a topic has now, up to where it ends, while others use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from oncelog.cli.brokers import existing_topics
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.client import Client, ConsumedRecord, Consumer, TopicDescription, TopicPartition

POLL_MS = 500.0


def polls(
    client: Client, consumer: Consumer, topic: TopicDescription, ends: Mapping[TopicPartition, int] | None
) -> Iterator[Sequence[ConsumedRecord]]:
    """What each poll brings of below the ends, until they are reached; without ends for ever.

    Raises CommandError where the topic is not there any more, or another one has its name: the ends are of the first.
    """
    if ends is None:
        while True:
            yield consumer.poll(POLL_MS)
    while any(consumer.position(item) < end for item, end in ends.items()):
        records = consumer.poll(POLL_MS)
        if not records:
            check_is_there(client, topic)
        yield [record for record in records if record.offset < ends[TopicPartition(record.topic, record.partition)]]
    check_is_there(client, topic)


def check_is_there(client: Client, topic: TopicDescription) -> None:
    """Raises CommandError."""
    (now,) = existing_topics(client, [topic.name])
    if now.topic_id != topic.topic_id:
        raise CommandError(f"topic {topic.name} was deleted and made anew while it was read", ExitStatus.REFUSED)
