"""Topics filled and read by confluent-kafka, so that what Spark did is judged by somebody else."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.known_topics import wait_until_known
from harness.names import unique
from harness.waiting import until


def create(bootstrap: str, name: str, partitions: int = 4, config: dict[str, str] | None = None) -> str:
    """Make a topic, and wait until every broker knows it: Apache Kafka's controller answers before that."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(name, partitions, config=config or {})
    until(lambda: _is_made(admin, topic))
    wait_until_known(bootstrap, name, partitions)
    return name


def _is_made(admin: AdminClient, topic: NewTopic) -> bool:
    """Over ZooKeeper DeleteTopics answers before the controller is done, and the one that goes keeps its name until then."""
    try:
        admin.create_topics([topic])[topic.topic].result(30)
    except KafkaException as refused:
        if "marked for deletion" not in refused.args[0].str():
            raise
        return False
    return True


def produce(bootstrap: str, topic: str, records: Iterable[tuple[str, str]], *, commit: bool | None = None) -> None:
    """Send (key, value) pairs; in one transaction, committed or aborted, unless `commit` is None."""
    _send(bootstrap, topic, ((key, value, -1) for key, value in records), commit)


def produce_to(bootstrap: str, topic: str, records: Iterable[tuple[int, str]], *, commit: bool | None = None) -> None:
    """The same with (partition, value) pairs; the key names the partition."""
    _send(bootstrap, topic, ((f"k{partition}", value, partition) for partition, value in records), commit)


def _send(bootstrap: str, topic: str, records: Iterable[tuple[str, str, int]], commit: bool | None) -> None:
    """Idempotent, so that they are in order also when a batch is sent again: a new partition may not be ready for the first."""
    settings = {
        "bootstrap.servers": bootstrap,
        "partitioner": "murmur2_random",
        "enable.idempotence": True,
        "linger.ms": 5,
    }
    if commit is not None:
        settings["transactional.id"] = unique("producer")
    producer = Producer(settings)
    if commit is not None:
        producer.init_transactions(30)
        producer.begin_transaction()
    for key, value, partition in records:
        producer.produce(topic, key=key, value=value, partition=partition, headers={"k": key})
        producer.poll(0)
    producer.flush(30)
    if commit is True:
        producer.commit_transaction(30)
    elif commit is False:
        producer.abort_transaction(30)


def read(bootstrap: str, topic: str, isolation: str = "read_committed") -> dict[int, list[tuple[str, str]]]:
    """The (key, value) pairs of each partition, in order, as that consumer sees them now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": unique("reader"),
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = list(consumer.list_topics(topic, 30).topics[topic].partitions)
        found: dict[int, list[tuple[str, str]]] = {number: [] for number in partitions}
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        unread = set(partitions)
        while unread:
            message = consumer.poll(30)
            assert message is not None, f"{topic} gave nothing more, and no end"
            if message.error() is not None:
                unread.discard(message.partition())
                continue
            found[message.partition()].append((message.key().decode(), message.value().decode()))
        return found
    finally:
        consumer.close()


def values(found: dict[int, list[tuple[str, str]]]) -> list[str]:
    return sorted(value for records in found.values() for _, value in records)


def by_key(found: dict[int, list[tuple[str, str]]]) -> dict[str, list[str]]:
    """The values of each key, in the order of its partition."""
    keyed: dict[str, list[str]] = {}
    for records in found.values():
        for key, value in records:
            keyed.setdefault(key, []).append(value)
    return keyed


def keyed_records(count: int, keys: int = 17, start: int = 0) -> list[tuple[str, str]]:
    """Values that tell their place: the order within a key can be checked afterwards."""
    return [(f"key-{number % keys}", f"value-{number:07d}") for number in range(start, start + count)]
