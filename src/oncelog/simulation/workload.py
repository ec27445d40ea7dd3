"""What the clients of a run do: write in transactions and without, copy from topic to topic, read, administer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from oncelog.client.admin import operations as admin
from oncelog.client.consumer.core import ConsumedRecord
from oncelog.client.errors import (
    BrokerRefused,
    ClientError,
    CommitFailed,
    DeliveryFailed,
    OffsetOutOfRange,
    ProducerFenced,
    TransactionFailed,
)
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.conversation import Sleep
from oncelog.client.producer.settings import ProducerSettings
from oncelog.client.values import IsolationLevel, NewTopic, OffsetAndMetadata, OffsetSpec, TopicPartition
from oncelog.simulation.clients import ClientNode, SimulatedConsumer, SimulatedProducer
from oncelog.simulation.history import COPIED, Outcome, RunHistory, WrittenTogether
from oncelog.simulation.transport import Play
from oncelog.wire import ErrorCode

INPUT, OUTPUT, PLAIN, SCRATCH = "input", "output", "plain", "scratch"
PARTITIONS = {INPUT: 3, OUTPUT: 2, PLAIN: 2}
GROUP = "copiers"
THINK_MS_MAX = (100.0, 400.0, 2_000.0)


@dataclass(slots=True)
class Shared:
    """What all clients of a run share: what they did, and whether to go on."""

    history: RunHistory
    is_written: bool = False
    is_over: bool = False

    def stop_writing(self) -> None:
        """What is there is still copied and read."""
        self.is_written = True


def make_topics(node: ClientNode, *, plain_is_durable: bool, segment_bytes: int) -> Play:
    """Create the topics; again, where an answer was lost."""
    configs = {"segment.bytes": str(segment_bytes)}
    for name, count in PARTITIONS.items():
        more = {"flush.messages": "1"} if name == PLAIN and plain_is_durable else {}
        try:
            yield from admin.create_topics(Cluster(node.settings), [NewTopic(name, count, 1, configs | more)])
        except BrokerRefused as refused:
            if refused.error is not ErrorCode.topic_already_exists:
                raise


def write_in_transactions(node: ClientNode, shared: Shared, transactional_id: str) -> Play:
    """One transaction after the other, until the run is over. Zombies are two nodes with one transactional id."""
    random = node.random
    pause = Sleep(0.0, random.choice(THINK_MS_MAX))
    settings = ProducerSettings(transactional_id, random.choice((3_000, 15_000, 60_000)), random.choice((0, 5, 50)))
    producer = SimulatedProducer(node, settings)
    yield from producer.init()
    while not shared.is_written:
        producer.begin()
        written = shared.history.write(node.name, is_transactional=True)
        try:
            yield from _fill(node, producer, written)
            if random.random() < 0.2:
                written.outcome = Outcome.FAILED
                yield from producer.abort()
            else:
                yield from producer.flush()
                written.outcome = Outcome.ENDING
                yield from producer.commit()
                written.outcome = Outcome.COMMITTED
        except TransactionFailed:
            written.outcome = Outcome.FAILED
            yield from producer.abort()
        except ClientError as error:
            _end_in_doubt(written, error)
            raise
        yield pause
    yield from producer.close()


def _end_in_doubt(written: WrittenTogether, error: ClientError) -> None:
    if written.outcome is Outcome.ENDING and not isinstance(error, ProducerFenced):
        written.outcome = Outcome.UNKNOWN
    else:
        written.outcome = Outcome.FAILED


def _fill(node: ClientNode, producer: SimulatedProducer, written: WrittenTogether) -> Play:
    random = node.random
    for _ in range(random.randrange(1, 6)):
        partition = TopicPartition(INPUT, random.randrange(PARTITIONS[INPUT]))
        value = b"%s %016x" % (node.name.encode(), random.getrandbits(64))
        value += b"." * random.choice((0, 0, 0, 0, 10, 10, 2_000, 2_000, 30_000))
        written.add(partition, value)
        yield from producer.send(*partition, value)
        if random.random() < 0.2:
            yield Sleep(0.0, 400.0)
        if random.random() < 0.01:
            yield Sleep(1_000, 20_000)


def write_plain(node: ClientNode, shared: Shared) -> Play:
    """Records outside transactions, by an idempotent producer."""
    random = node.random
    pause = Sleep(0.0, random.choice(THINK_MS_MAX))
    producer = SimulatedProducer(node, ProducerSettings(linger_ms=random.choice((0, 20)), delivery_timeout_ms=20_000))
    while not shared.is_written:
        round_of_writes = []
        for _ in range(random.randrange(1, 8)):
            partition = TopicPartition(PLAIN, random.randrange(PARTITIONS[PLAIN]))
            value = b"plain %s %016x" % (node.name.encode(), random.getrandbits(64))
            written = shared.history.write(node.name, is_transactional=False)
            written.add(partition, value)
            round_of_writes.append((written, (yield from producer.send(*partition, value))))
        failure: ClientError | None = None
        try:
            yield from producer.flush()
        except ClientError as error:
            failure = error
        for written, sent in round_of_writes:
            written.outcome = _plain_outcome(sent.batch.outcome(sent.place)[1])
        if failure is not None:
            raise failure
        yield pause
    yield from producer.close()


def _plain_outcome(error: ClientError | None) -> Outcome:
    if error is None:
        return Outcome.COMMITTED
    return Outcome.FAILED if isinstance(error, DeliveryFailed) else Outcome.UNKNOWN


def copy(node: ClientNode, shared: Shared, protocol: str) -> Play:
    """Read one topic as a member of a group, and write each record to another, with the offsets, in transactions."""
    random = node.random
    consumer = SimulatedConsumer(node, IsolationLevel.READ_COMMITTED, group=GROUP, group_protocol=protocol)
    producer = SimulatedProducer(node, ProducerSettings(f"id of {node.name}", 15_000, 0))
    yield from producer.init()
    consumer.subscribe([INPUT])
    while not shared.is_over:
        records: list[ConsumedRecord] = yield from consumer.poll(1_000)
        if not records:
            continue
        written = shared.history.write(node.name, is_transactional=True)
        attempt = COPIED + b"%016x" % random.getrandbits(64)
        try:
            who = consumer.metadata()
        except CommitFailed:
            continue
        producer.begin()
        try:
            offsets: dict[TopicPartition, OffsetAndMetadata] = {}
            for record in records:
                assert record.value is not None
                target = TopicPartition(OUTPUT, record.offset % PARTITIONS[OUTPUT])
                written.add(target, record.value + attempt)
                yield from producer.send(*target, record.value + attempt)
                offsets[TopicPartition(record.topic, record.partition)] = OffsetAndMetadata(record.offset + 1)
            if random.random() < 0.5:
                yield from producer.flush()
            yield from producer.send_offsets(offsets, who)
            yield from producer.flush()
            written.outcome = Outcome.ENDING
            yield from producer.commit()
            written.outcome = Outcome.COMMITTED
        except TransactionFailed:
            written.outcome = Outcome.FAILED
            yield from producer.abort()
            yield from consumer.seek_to_committed()
        except ClientError as error:
            _end_in_doubt(written, error)
            raise
    yield from consumer.close()
    yield from producer.close()


def read(node: ClientNode, shared: Shared, isolation_level: IsolationLevel) -> Play:
    """Read from the beginning, again and again."""
    is_committed_only = isolation_level is IsolationLevel.READ_COMMITTED
    while not shared.is_over:
        consumer = SimulatedConsumer(node, isolation_level)
        partitions = [TopicPartition(name, index) for name, count in PARTITIONS.items() for index in range(count)]
        yield from consumer.assign(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
        sightings = {
            one: shared.history.read(node.name, one, is_committed_only=is_committed_only) for one in partitions
        }
        for _ in range(node.random.randrange(10, 200)):
            records: list[ConsumedRecord] = yield from consumer.poll(1_000)
            for record in records:
                sighting = sightings[TopicPartition(record.topic, record.partition)]
                if sighting.seen and record.offset <= sighting.seen[-1][0]:
                    # A power cut has taken what was read, and the reader has begun anew.
                    sighting = sightings[sighting.partition] = shared.history.read(
                        node.name, sighting.partition, is_committed_only=is_committed_only
                    )
                sighting.seen.append((record.offset, record.value or b""))
            yield Sleep(0.0, 2_000.0)
            if shared.is_over:
                break
        yield from consumer.close()


def administer(node: ClientNode, shared: Shared) -> Play:
    """Topics come, grow and go, and their beginnings are deleted; what is going on is asked for."""
    random = node.random
    cluster = Cluster(node.settings)
    while not shared.is_written:
        yield Sleep(200, 6_000)
        count = random.randrange(1, 4)
        actions: list[Callable[[], Play]] = [
            lambda: admin.create_topics(cluster, [NewTopic(SCRATCH, 1, 1)]),
            lambda: admin.delete_topics(cluster, [SCRATCH]),
            lambda count=count: admin.create_partitions(cluster, {SCRATCH: count + 1}),  # type: ignore[misc]
            lambda: admin.describe_configs(cluster, topics=[INPUT]),
            lambda: admin.list_transactions(cluster),
            lambda: admin.describe_topics(cluster, None),
            lambda: _use_scratch(node),
            lambda: admin.delete_records(cluster, {TopicPartition(SCRATCH, 0): -1}),
        ]
        try:
            yield from random.choice(actions)()
        except (BrokerRefused, OffsetOutOfRange):
            continue


def _use_scratch(node: ClientNode) -> Play:
    producer = SimulatedProducer(node, ProducerSettings(linger_ms=0, delivery_timeout_ms=5_000))
    for _ in range(node.random.randrange(1, 20)):
        yield from producer.send(SCRATCH, 0, b"scratch")
    try:
        yield from producer.flush()
    except ClientError:
        return
    finally:
        node.forget(producer.transport)


def read_all(node: ClientNode, topics: Iterable[str], view: dict[TopicPartition, list[tuple[int, bytes]]]) -> Play:
    """What read_committed shows of every partition of the topics, up to where it ends."""
    partitions = [TopicPartition(name, index) for name in topics for index in range(PARTITIONS[name])]
    consumer = SimulatedConsumer(node, IsolationLevel.READ_COMMITTED)
    yield from consumer.assign(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    view.update({one: [] for one in partitions})
    empty = 0
    while empty < 3:
        records: list[ConsumedRecord] = yield from consumer.poll(1_000)
        empty = 0 if records else empty + 1
        for record in records:
            view[TopicPartition(record.topic, record.partition)].append((record.offset, record.value or b""))
