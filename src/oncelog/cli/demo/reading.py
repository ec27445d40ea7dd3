"""Reading topics with a client that is not ours: confluent-kafka, which is librdkafka."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from confluent_kafka import Consumer, Message, TopicPartition

from oncelog.cli.demo.plan import PARTITIONS
from oncelog.cli.demo.tally import OutputRecord, Place

MESSAGES_AT_ONCE = 10_000
POLL_SECONDS = 0.2
ANSWER_SECONDS = 60
FETCH_BYTES = 8 * 1024 * 1024


def consumer(bootstrap_servers: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "oncelog-demo",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": False,
            "isolation.level": "read_committed",
            "max.partition.fetch.bytes": FETCH_BYTES,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
    )


def delivered(reader: Consumer) -> list[Message]:
    """What came in a short time; the errors among it are those of a broker that was killed, and pass."""
    return [message for message in reader.consume(MESSAGES_AT_ONCE, POLL_SECONDS) if message.error() is None]


def place(message: Message) -> Place:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return topic, partition, offset


def end_offsets(bootstrap_servers: str, topic: str) -> dict[int, int]:
    """Where each partition of a topic ends now."""
    reader = consumer(bootstrap_servers)
    try:
        return {
            number: reader.get_watermark_offsets(TopicPartition(topic, number), timeout=ANSWER_SECONDS)[1]
            for number in range(PARTITIONS)
        }
    finally:
        reader.close()


def read_all(bootstrap_servers: str, topic: str, ends: Mapping[int, int]) -> Iterator[OutputRecord]:
    """Every committed record of a topic up to these end offsets; each partition in its order."""
    reader = consumer(bootstrap_servers)
    try:
        left = {number for number, end in ends.items() if end > 0}
        reader.assign([TopicPartition(topic, number, 0) for number in left])
        while left:
            for message in delivered(reader):
                yield OutputRecord(place(message), message.key(), message.value() or b"")
            # The last offsets may be markers or aborted records, which are never delivered: positions say it.
            for position in reader.position([TopicPartition(topic, number) for number in left]):
                if position.offset >= ends[position.partition]:
                    left.discard(position.partition)
    finally:
        reader.close()


class ConcurrentReader:
    """A read_committed reader that runs from before the first driver until everything has settled."""

    def __init__(self, bootstrap_servers: str, topics: Sequence[str], advance: Callable[[int], None]) -> None:
        self.seen: list[Place] = []
        self._bootstrap_servers = bootstrap_servers
        self._topics = topics
        self._advance = advance
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="concurrent reader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        reader = consumer(self._bootstrap_servers)
        reader.assign([TopicPartition(topic, number, 0) for topic in self._topics for number in range(PARTITIONS)])
        while True:
            messages = delivered(reader)
            self.seen.extend(map(place, messages))
            self._advance(len(messages))
            if self._stop.is_set() and not messages:
                break
        reader.close()
