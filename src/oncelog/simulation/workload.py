"""The clients of a run: they write in transactions and without, copy from topic to topic, and read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from random import Random
from uuid import UUID

from oncelog.client.admin import operations as admin
from oncelog.client.consumer.core import ConsumedRecord
from oncelog.client.consumer.offsets import list_offsets
from oncelog.client.errors import (
    BrokerRefused,
    ClientError,
    CommitFailed,
    DeliveryFailed,
    ProducerFenced,
    TransactionFailed,
)
from oncelog.client.net.cluster import TRANSACTION_FEATURE, Cluster, ask_any
from oncelog.client.net.flows import Sleep
from oncelog.client.producer.settings import ProducerSettings
from oncelog.client.requests import OFFSET_COMMIT, Api, ApiRequest, milliseconds
from oncelog.client.values import IsolationLevel, NewTopic, OffsetAndMetadata, OffsetSpec, TopicPartition
from oncelog.simulation.broker_node import SimulationFailure
from oncelog.simulation.clients import SESSION_MS, ClientNode, Sent, SimulatedConsumer, SimulatedProducer
from oncelog.simulation.history import COPIED, Outcome, PlainCommits, ReaderSighting, RunHistory, WrittenTogether
from oncelog.simulation.keyed import KEYED, KEYED_PARTITIONS, KeyedHistory, keyed_topic
from oncelog.simulation.short_lived import (
    REBORN,
    SHORT_LIVED,
    ShortLivedHistory,
    ShortLivedRecord,
    short_lived_topics,
)
from oncelog.wire import ErrorCode

UPDATE_FEATURES = Api(57, "UpdateFeatures", 1, 1)
SAFE_DOWNGRADE = 2
INPUT, OUTPUT, PLAIN = "input", "output", "plain"
PARTITIONS = {INPUT: 3, OUTPUT: 2, PLAIN: 2}
GROUP, FOLLOWERS = "copiers", "followers"
COPIER_TIMEOUT_MS = 15_000
AT_ONCE_BYTES = 1_000_000
MIN_BYTES = (1, 1, 5_000)
"""The min_bytes of a reader's Fetch."""
TOO_LATE_MS = (SESSION_MS, COPIER_TIMEOUT_MS)
THINK_MS_MAX = (100.0, 400.0, 2_000.0)


@dataclass(slots=True)
class Shared:
    """The state that all clients of a run share: their history, and whether to go on."""

    history: RunHistory
    keyed: KeyedHistory
    short_lived: ShortLivedHistory
    commits: PlainCommits
    topics: Sequence[str]
    """The topics of transactions; one that is there twice is written twice as often."""
    topic_id: Callable[[str], UUID | None]
    """The id of a topic that there is now, as the broker knows it."""
    is_written: bool = False
    is_over: bool = False

    def stop_writing(self) -> None:
        """Let writers end. Records that are there are still copied and read."""
        self.is_written = True


async def make_ready(node: ClientNode, made: Sequence[NewTopic], transaction_version: int) -> None:
    """Make the topics, once clients know which generation of the transaction protocol to speak: they go by this feature."""
    update = {"feature": TRANSACTION_FEATURE, "max_version_level": transaction_version, "upgrade_type": SAFE_DOWNGRADE}
    fields = {"timeout": milliseconds(10_000), "feature_updates": [update], "validate_only": False}
    await ask_any(
        Cluster(node.settings),
        ApiRequest(UPDATE_FEATURES, fields),
        lambda answer: answer.error_code,
        "a feature's level",
    )
    await make_topics(node, made)


def topics(random: Random, *, plain_is_durable: bool) -> list[NewTopic]:
    """The topics of the run: three that every run has, and others now and then."""
    configs = {"segment.bytes": random.choice(("1048576", "1073741824"))}
    made = [NewTopic(name, count, 1, configs) for name, count in PARTITIONS.items() if name != PLAIN]
    made.append(NewTopic(PLAIN, PARTITIONS[PLAIN], 1, configs | ({"flush.messages": "1"} if plain_is_durable else {})))
    if random.random() < 0.5:
        made.append(keyed_topic(random, plain_is_durable=plain_is_durable))
    if random.random() < 0.5:
        made.extend(short_lived_topics(random))
    return made


def written_topics(made: Sequence[NewTopic]) -> list[str]:
    """The topics of transactions: half of the records in them are copied."""
    others = [topic.name for topic in made if topic.name not in PARTITIONS]
    return [INPUT] * max(1, len(others)) + others


async def make_topics(node: ClientNode, topics: Sequence[NewTopic]) -> None:
    """Create the topics; again, where an answer was lost."""
    for topic in topics:
        try:
            await admin.create_topics(Cluster(node.settings), [topic])
        except BrokerRefused as refused:
            if refused.error is not ErrorCode.topic_already_exists:
                raise


async def write_in_transactions(node: ClientNode, shared: Shared, transactional_id: str) -> None:
    """One transaction after the other, until the run is over. Zombies are two nodes with one transactional id."""
    random = node.random
    pause = Sleep(0.0, random.choice(THINK_MS_MAX))
    settings = ProducerSettings(transactional_id, random.choice((3_000, 15_000, 60_000)), random.choice((0, 5, 50)))
    producer = SimulatedProducer(node, settings)
    await producer.init()
    while not shared.is_written:
        producer.begin()
        written = shared.history.write(node.name, is_transactional=True)
        try:
            await _fill(node, shared, producer, written)
            if random.random() < 0.2:
                written.outcome = Outcome.FAILED
                await producer.abort()
            else:
                await producer.flush()
                written.outcome = Outcome.ENDING
                await producer.commit()
                written.outcome = Outcome.COMMITTED
                shared.short_lived.committed(written, shared.topic_id)
        except TransactionFailed:
            written.outcome = Outcome.FAILED
            await producer.abort()
        except ClientError as error:
            end_in_doubt(written, error)
            raise
        await pause
    await producer.close()


async def leave_open(node: ClientNode, shared: Shared, timeout_ms: int) -> None:
    """A transaction that its producer neither commits nor aborts."""
    producer = SimulatedProducer(node, ProducerSettings(f"id of {node.name}", timeout_ms, 0))
    await producer.init()
    producer.begin()
    written = shared.history.write(node.name, is_transactional=True)
    await send_record(node, shared, producer, written, INPUT)
    await producer.flush()


def end_in_doubt(written: WrittenTogether, error: ClientError) -> None:
    if written.outcome is Outcome.ENDING and not isinstance(error, ProducerFenced):
        written.outcome = Outcome.UNKNOWN
    else:
        written.outcome = Outcome.FAILED


async def _fill(node: ClientNode, shared: Shared, producer: SimulatedProducer, written: WrittenTogether) -> None:
    random = node.random
    for _ in range(random.randrange(1, 6)):
        topic = random.choice(shared.topics)
        if topic == KEYED:
            place, key, new = shared.keyed.change(random, written)
            await producer.send(*place, new, key)
        else:
            await send_record(node, shared, producer, written, topic)
        if random.random() < 0.2:
            await Sleep(0.0, 400.0)
        if random.random() < 0.03:
            await _stall(random.randrange(1, 20), shared)


async def _stall(seconds: int, shared: Shared) -> None:
    """Leave a transaction open, as long as others write."""
    for _ in range(seconds):
        if not shared.is_written:
            await Sleep(1_000, 1_000)


async def send_record(
    node: ClientNode, shared: Shared, producer: SimulatedProducer, written: WrittenTogether, topic: str
) -> None:
    """One record; none where the topic is away."""
    random = node.random
    partition = TopicPartition(topic, random.randrange(PARTITIONS.get(topic, 1)))
    value = b"%s %016x" % (node.name.encode(), random.getrandbits(64))
    value += b"." * random.choice((0, 0, 0, 0, 10, 10, 2_000, 2_000, 30_000))
    topic_id = shared.topic_id(topic)
    if topic == REBORN and topic_id is None:
        return
    written.add(partition, value)
    sent: Sent = await producer.send(*partition, value)
    written.sent.append((partition, value, sent))
    if topic in SHORT_LIVED:
        shared.short_lived.records.append(ShortLivedRecord(partition, value, written, sent, topic_id))


async def write_plain(node: ClientNode, shared: Shared) -> None:
    """Records outside transactions, by an idempotent producer."""
    random = node.random
    pause = Sleep(0.0, random.choice(THINK_MS_MAX))
    producer = SimulatedProducer(
        node, ProducerSettings(linger_ms=random.choice((0, 20)), delivery_timeout_ms=random.choice((3_000, 20_000)))
    )
    while not shared.is_written:
        round_of_writes = []
        for _ in range(random.randrange(1, 8)):
            partition = TopicPartition(PLAIN, random.randrange(PARTITIONS[PLAIN]))
            value = b"plain %s %016x" % (node.name.encode(), random.getrandbits(64))
            written = shared.history.write(node.name, is_transactional=False)
            written.add(partition, value)
            sent: Sent = await producer.send(*partition, value)
            written.sent.append((partition, value, sent))
            round_of_writes.append((written, sent))
        if KEYED in shared.topics:
            written = shared.history.write(node.name, is_transactional=False)
            place, key, new = shared.keyed.change(random, written)
            round_of_writes.append((written, await producer.send(*place, new, key)))
        failure: ClientError | None = None
        try:
            await producer.flush()
        except ClientError as error:
            failure = error
        for written, sent in round_of_writes:
            written.outcome = _plain_outcome(sent.batch.outcome(sent.place)[1])
        if failure is not None:
            raise failure
        await pause
    await producer.close()


def _plain_outcome(error: ClientError | None) -> Outcome:
    if error is None:
        return Outcome.COMMITTED
    return Outcome.FAILED if isinstance(error, DeliveryFailed) else Outcome.UNKNOWN


async def copy(node: ClientNode, shared: Shared, protocol: str) -> None:
    """Read one topic as a member of a group, and write each record to another, with the offsets, in transactions."""
    random = node.random
    consumer = SimulatedConsumer(node, IsolationLevel.READ_COMMITTED, group=GROUP, group_protocol=protocol)
    producer = SimulatedProducer(node, ProducerSettings(f"id of {node.name}", COPIER_TIMEOUT_MS, 0))
    await producer.init()
    consumer.subscribe([INPUT])
    while not shared.is_over:
        records: list[ConsumedRecord] = await consumer.poll(1_000)
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
                sent: Sent = await producer.send(*target, record.value + attempt)
                written.sent.append((target, record.value + attempt, sent))
                offsets[TopicPartition(record.topic, record.partition)] = OffsetAndMetadata(record.offset + 1)
            if random.random() < 0.5:
                await producer.flush()
            await _perhaps_too_late(node)
            await producer.send_offsets(offsets, who)
            await _perhaps_too_late(node)
            await producer.flush()
            written.outcome = Outcome.ENDING
            await producer.commit()
            written.outcome = Outcome.COMMITTED
        except TransactionFailed:
            written.outcome = Outcome.FAILED
            await producer.abort()
            await consumer.seek_to_committed()
        except ClientError as error:
            end_in_doubt(written, error)
            raise
    await consumer.close()
    await producer.close()


async def _perhaps_too_late(node: ClientNode) -> None:
    """Now and then stand still for so long that the group goes on without the member, and its transaction is open still."""
    if node.random.random() < 0.01:
        node.stand_still(node.random.uniform(*TOO_LATE_MS))
        await Sleep(0.0, 1.0)


async def follow(node: ClientNode, shared: Shared, protocol: str) -> None:
    """Read the input as the one member of a group, and commit offsets outside transactions."""
    consumer = SimulatedConsumer(node, IsolationLevel.READ_COMMITTED, group=FOLLOWERS, group_protocol=protocol)
    consumer.subscribe([INPUT])
    commits = shared.commits
    is_doubtful = False
    while not shared.is_over:
        records: list[ConsumedRecord] = await consumer.poll(1_000)
        if not records:
            continue
        offsets = consumer.positions()
        before = node.sent(OFFSET_COMMIT)
        commits.ask(offsets)
        try:
            await consumer.commit()
        except CommitFailed:
            continue
        is_doubtful |= node.sent(OFFSET_COMMIT) != before + 1
        commits.answered(offsets, is_doubtful=is_doubtful)
        await Sleep(0.0, 1_000.0)
    await consumer.close()


async def read(node: ClientNode, shared: Shared, isolation_level: IsolationLevel) -> None:
    """Read from the beginning, again and again."""
    counts = PARTITIONS | {topic: 1 for topic in SHORT_LIVED if topic in shared.topics}
    if KEYED in shared.topics:
        counts[KEYED] = KEYED_PARTITIONS
    partitions = [TopicPartition(name, index) for name, count in counts.items() for index in range(count)]
    while not shared.is_over:
        consumer = SimulatedConsumer(node, isolation_level, min_bytes=node.random.choice(MIN_BYTES))
        await consumer.assign(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
        notebook = Notebook(node.name, shared, isolation_level is IsolationLevel.READ_COMMITTED)
        for _ in range(node.random.randrange(10, 200)):
            records: list[ConsumedRecord] = await consumer.poll(1_000)
            for record in records:
                notebook.saw(record)
            await Sleep(0.0, 2_000.0)
            if shared.is_over:
                break
        await consumer.close()


class Notebook:
    """The records that one consumer saw. It must not see records that were deleted before it began."""

    def __init__(self, reader: str, shared: Shared, is_committed_only: bool) -> None:
        self._reader = reader
        self._shared = shared
        self._is_committed_only = is_committed_only
        self._floors = dict(shared.short_lived.floors)
        self._deleted = shared.short_lived.values_of_deleted_topics()
        self._sightings: dict[TopicPartition, ReaderSighting] = {}
        self._keyed: dict[TopicPartition, list[ConsumedRecord]] = {}

    def saw(self, record: ConsumedRecord) -> None:
        partition = TopicPartition(record.topic, record.partition)
        if record.offset < self._floors.get(partition, 0):
            raise SimulationFailure(f"{self._reader} saw {partition} at {record.offset}, which was deleted before")
        if record.topic == REBORN and record.value in self._deleted:
            raise SimulationFailure(
                f"{self._reader} saw {partition} at {record.offset}: it is of a topic that was deleted before"
            )
        if record.topic in PARTITIONS:
            self._sighting(partition, record.offset).seen.append((record.offset, record.value or b""))
        elif record.topic == KEYED and self._is_committed_only:
            self._keyed_records(partition, record.offset).append(record)

    def _sighting(self, partition: TopicPartition, offset: int) -> ReaderSighting:
        """A power cut may take what was read, and the reader begins anew."""
        sighting = self._sightings.get(partition)
        if sighting is None or (sighting.seen and offset <= sighting.seen[-1][0]):
            sighting = self._shared.history.read(self._reader, partition, is_committed_only=self._is_committed_only)
            self._sightings[partition] = sighting
        return sighting

    def _keyed_records(self, partition: TopicPartition, offset: int) -> list[ConsumedRecord]:
        records = self._keyed.get(partition)
        if records is None or offset <= records[-1].offset:
            records = self._keyed[partition] = []
            self._shared.keyed.sightings.append({partition: records})
        return records


async def read_all(
    node: ClientNode, partitions: Collection[TopicPartition], view: dict[TopicPartition, list[ConsumedRecord]]
) -> None:
    """Read the partitions up to their end as read_committed shows them: fast, since compaction may remove records
    meanwhile.
    """
    latest = dict.fromkeys(partitions, OffsetSpec.LATEST)
    ends = await list_offsets(Cluster(node.settings), latest, IsolationLevel.READ_COMMITTED)
    consumer = SimulatedConsumer(node, IsolationLevel.READ_COMMITTED, at_once_bytes=AT_ONCE_BYTES)
    await consumer.assign(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    view.update({one: [] for one in partitions})
    empty = 0
    while empty < 3 and any(offset < ends[one].offset for one, offset in consumer.positions().items()):
        records: list[ConsumedRecord] = await consumer.poll(1_000)
        empty = 0 if records else empty + 1
        for record in records:
            view[TopicPartition(record.topic, record.partition)].append(record)
