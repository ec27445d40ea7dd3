"""One producer id and epoch, used by a driver and by tasks on connections of their own.

The driver belongs to no group. It adds partitions, commits offsets and ends the transaction; tasks only produce. The
cluster has one broker: every leader and every coordinator is the same address.
"""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from kio.schema.errors import ErrorCode

from harness.processes import BrokerProcess
from harness.wire import Connection, batch

GROUP, TRANSACTION = 0, 1
LATEST = -1
NONE = ErrorCode.none
LOADING = (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress)
RETRIABLE = {ErrorCode(code) for code in (3, 6, 7, 13, 14, 15, 16, 19, 51, 88)}


@dataclass(frozen=True, slots=True)
class Protocol:
    """The request versions one kind of client uses. `add` None: the broker adds partitions by itself (KIP-890)."""

    name: str
    produce: int
    init: int = 5
    add: int | None = None
    add_offsets: int | None = None
    offset_commit: int = 5
    end: int = 5

    @property
    def bumps(self) -> bool:
        """EndTxn answers with the epoch of the next transaction."""
        return self.end >= 5


TV1 = Protocol("TV1", produce=11, init=4, add=3, add_offsets=4, offset_commit=4, end=4)
TV1_OLD = Protocol("TV1-Produce-v9", produce=9, init=4, add=3, add_offsets=3, offset_commit=3, end=3)
TV2 = Protocol("TV2", produce=12)
TV2_BY_ID = Protocol("TV2-Produce-v13", produce=13)
MIX = Protocol("TV2-added-by-v3", produce=12, add=3)
MIX_V4 = Protocol("TV2-added-by-v4", produce=12, add=4)
MIX_V5 = Protocol("TV2-added-by-v5", produce=12, add=5)


class Cluster:
    """The one broker, the topics made on it, and what its readers and its admin calls see."""

    def __init__(self, node: BrokerProcess) -> None:
        self.node = node
        self.bootstrap_servers = node.bootstrap_servers
        self.is_ours = node.name == "oncelog"
        self.connection = self.connect()
        self.topic_ids: dict[str, uuid.UUID] = {}

    def connect(self) -> Connection:
        return Connection(self.bootstrap_servers)

    def connections(self, count: int) -> list[Connection]:
        return [self.connect() for _ in range(count)]

    def create_topic(self, partitions: int) -> str:
        name = f"shared-{uuid.uuid4().hex[:8]}"
        wanted = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        answer = self.connection.ask("create_topics", 7, topics=[wanted], validate_only=False)
        assert answer.topics[0].error_code is NONE, answer
        self.topic_ids[name] = answer.topics[0].topic_id
        self._wait_for_leaders(name, partitions)
        return name

    def new_group(self) -> str:
        """A group id that has a coordinator: nothing but asking for it makes the internal topic of a new cluster.

        A broker is named as the coordinator before it has loaded the partition of the group.
        """
        name = f"group-{uuid.uuid4().hex[:8]}"
        self.wait_for_coordinator(GROUP, name)
        until(lambda: self.connection.ask("delete_groups", 1, groups_names=[name]).results[0].error_code not in LOADING)
        return name

    def wait_for_coordinator(self, kind: int, key: str) -> None:
        def found() -> bool:
            answer = self.connection.ask("find_coordinator", 4, key_type=kind, coordinator_keys=[key])
            return answer.coordinators[0].error_code is NONE

        until(found)

    def transaction_state(self, transactional_id: str) -> str:
        answer = self.connection.ask("describe_transactions", 0, transactional_ids=[transactional_id])
        return str(answer.transaction_states[0].transaction_state)

    def wait_until_complete(self, transactional_id: str) -> None:
        until(lambda: self.transaction_state(transactional_id) not in ("PrepareCommit", "PrepareAbort"))

    def producers(self, topic: str, partitions: Iterable[int]) -> dict[int, list[Any]]:
        wanted = {"name": topic, "partition_indexes": list(partitions)}
        answer = self.connection.ask("describe_producers", 0, topics=[wanted])
        return {one.partition_index: list(one.active_producers) for one in answer.topics[0].partitions}

    def fetch_offset(self, group: str, topic: str, partition: int, stable: bool) -> tuple[ErrorCode, int, str | None]:
        wanted = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [partition]}]}
        answer = self.connection.ask("offset_fetch", 8, groups=[wanted], require_stable=stable)
        if answer.groups[0].error_code is not NONE:
            return answer.groups[0].error_code, -1, None
        found = answer.groups[0].topics[0].partitions[0]
        return found.error_code, found.committed_offset, found.metadata

    def read(self, topic: str, partitions: int, isolation: str = "read_committed") -> list[tuple[int, int, str]]:
        """Every record a reader of this isolation level sees now: (partition, offset, value)."""
        settings = {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
        }
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        records, unfinished = [], set(range(partitions))
        while unfinished:
            found: list[Any] = consumer.consume(1000, 0.2)
            for message in found:
                if message.error() is None:
                    records.append((message.partition(), message.offset(), message.value().decode()))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(message.partition())
        consumer.close()
        return records

    def values(self, topic: str, partitions: int = 1, isolation: str = "read_committed") -> list[str]:
        return [value for _, _, value in self.read(topic, partitions, isolation)]

    def _wait_for_leaders(self, name: str, partitions: int) -> None:
        """Until every partition answers for itself: the metadata names leaders a little before they lead."""
        wanted = {
            "name": name,
            "partitions": [{"partition_index": number, "timestamp": LATEST} for number in range(partitions)],
        }

        def led() -> bool:
            answer = self.connection.ask("list_offsets", 7, replica_id=-1, isolation_level=0, topics=[wanted])
            return all(one.error_code is NONE for one in answer.topics[0].partitions)

        until(led)


def until(holds: Callable[[], bool], timeout_seconds: float = 30.0, pause_seconds: float = 0.002) -> None:
    """Ask again and again until it holds."""
    deadline = time.monotonic() + timeout_seconds
    while not holds():
        assert time.monotonic() < deadline, f"it did not come true in {timeout_seconds} s"
        time.sleep(pause_seconds)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one partition of a Produce request got."""

    code: ErrorCode
    offset: int


class Driver:
    """One transactional id: its epoch, its transactions, and batches stamped with it."""

    def __init__(
        self,
        cluster: Cluster,
        protocol: Protocol,
        transactional_id: str | None = None,
        timeout: timedelta = timedelta(seconds=60),
    ) -> None:
        self.cluster, self.protocol, self.timeout = cluster, protocol, timeout
        self.transactional_id = transactional_id or f"shared-{uuid.uuid4().hex[:8]}"
        self.connection = cluster.connect()
        self.pid, self.epoch = -1, -1
        self.retries: Counter[str] = Counter()
        cluster.wait_for_coordinator(TRANSACTION, self.transactional_id)

    def identity(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.pid,
            "producer_epoch": self.epoch,
        }

    def init_once(self, bump: bool = False) -> ErrorCode:
        self._send_init(*((self.pid, self.epoch) if bump else (-1, -1)))
        return self._receive_init()

    def bump_to(self, epoch: int) -> None:
        """Bump after bump, without waiting for each answer: a connection's requests are taken in order."""
        while self.epoch < epoch:
            asked = range(self.epoch, min(epoch, self.epoch + 200))
            for one in asked:
                self._send_init(self.pid, one)
            for _ in asked:
                self._receive_init()

    def _send_init(self, pid: int, epoch: int) -> None:
        self.connection.send(
            "init_producer_id",
            self.protocol.init,
            transactional_id=self.transactional_id,
            transaction_timeout=self.timeout,
            producer_id=pid,
            producer_epoch=epoch,
        )

    def _receive_init(self) -> ErrorCode:
        answer = self.connection.receive("init_producer_id", self.protocol.init)
        if answer.error_code is NONE:
            self.pid, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    def init(self, bump: bool = False) -> Driver:
        self.until_accepted("InitProducerId", lambda: self.init_once(bump))
        return self

    def add_once(self, topic: str, partitions: Iterable[int], version: int | None = None) -> ErrorCode:
        """AddPartitionsToTxn; the first error in the answer, or none."""
        if version is None:
            version = self.protocol.add or 3
        topics = [{"name": topic, "partitions": list(partitions)}]
        if version <= 3:
            prefixed = {f"v3_and_below_{name}": value for name, value in self.identity().items()}
            answer = self.connection.ask("add_partitions_to_txn", version, **prefixed, v3_and_below_topics=topics)
            results = answer.results_by_topic_v3_and_below
        else:
            one = {**self.identity(), "verify_only": False, "topics": topics}
            answer = self.connection.ask("add_partitions_to_txn", version, transactions=[one])
            if answer.error_code is not NONE:
                return ErrorCode(answer.error_code)
            results = answer.results_by_transaction[0].topic_results
        codes = [one.partition_error_code for result in results for one in result.results_by_partition]
        return next((code for code in codes if code is not NONE), NONE)

    def add(self, topic: str, partitions: Iterable[int]) -> None:
        """Add the exact set, when the protocol asks clients to."""
        if self.protocol.add is not None:
            wanted = list(partitions)
            self.until_accepted("AddPartitionsToTxn", lambda: self.add_once(topic, wanted))

    def add_offsets_once(self, group: str) -> ErrorCode:
        version = self.protocol.add_offsets or 4
        return ErrorCode(
            self.connection.ask("add_offsets_to_txn", version, **self.identity(), group_id=group).error_code
        )

    def commit_offsets_once(self, group: str, topic: str, offsets: dict[int, int], metadata: str = "") -> ErrorCode:
        """TxnOffsetCommit as nobody in particular: generation -1, no member."""
        partitions = [
            {"partition_index": number, "committed_offset": offset, "committed_metadata": metadata}
            for number, offset in offsets.items()
        ]
        topics = [{"name": topic, "partitions": partitions}]
        answer = self.connection.ask(
            "txn_offset_commit", self.protocol.offset_commit, **self.identity(), group_id=group, topics=topics
        )
        codes = [one.error_code for topic in answer.topics for one in topic.partitions]
        return next((code for code in codes if code is not NONE), NONE)

    def commit_offsets(self, group: str, topic: str, offsets: dict[int, int], metadata: str = "") -> None:
        if self.protocol.add_offsets is not None:
            self.until_accepted("AddOffsetsToTxn", lambda: self.add_offsets_once(group))
        self.until_accepted("TxnOffsetCommit", lambda: self.commit_offsets_once(group, topic, offsets, metadata))

    def end_once(self, commit: bool = True, version: int | None = None) -> Any:
        """EndTxn; our epoch stays what it was."""
        return self.connection.ask("end_txn", version or self.protocol.end, **self.identity(), committed=commit)

    def end(self, commit: bool = True) -> None:
        def attempt() -> ErrorCode:
            answer = self.end_once(commit)
            if answer.error_code is NONE and self.protocol.bumps:
                self.pid, self.epoch = answer.producer_id, answer.producer_epoch
            return ErrorCode(answer.error_code)

        self.until_accepted("EndTxn", attempt)

    def complete(self, commit: bool = True) -> None:
        """End the transaction and wait until its markers are on every partition."""
        self.end(commit)
        self.cluster.wait_until_complete(self.transactional_id)

    def next_transaction(self) -> None:
        """A fresh epoch for what follows: EndTxn v5 gave it, otherwise InitProducerId does."""
        if not self.protocol.bumps:
            self.init(bump=True)

    def until_accepted(self, name: str, attempt: Callable[[], ErrorCode]) -> None:
        def accepted() -> bool:
            code = attempt()
            assert code is NONE or code in RETRIABLE, f"{name}: {text(code)}"
            if code is not NONE:
                self.retries[f"{name} {text(code)}"] += 1
            return code is NONE

        until(accepted)

    def produce_fields(self, topic: str, batches: dict[int, bytes], version: int) -> dict[str, Any]:
        partitions = [{"index": number, "records": records} for number, records in batches.items()]
        place = {"name": topic} if version <= 12 else {"topic_id": self.cluster.topic_ids[topic]}
        return {
            "transactional_id": self.transactional_id,
            "acks": -1,
            "timeout": timedelta(seconds=30),
            "topic_data": [{**place, "partition_data": partitions}],
        }

    def batch(self, sequence: int, values: list[str], epoch: int | None = None) -> bytes:
        return batch(self.pid, self.epoch if epoch is None else epoch, sequence, values)

    def produce_once(
        self, connection: Connection, topic: str, batches: dict[int, bytes], version: int | None = None
    ) -> dict[int, Answer]:
        version = version or self.protocol.produce
        answer = connection.ask("produce", version, **self.produce_fields(topic, batches, version))
        return produced(answer)

    def produce_one(
        self,
        connection: Connection,
        topic: str,
        partition: int,
        sequence: int,
        values: list[str],
        epoch: int | None = None,
        version: int | None = None,
    ) -> Answer:
        """One batch to one partition, once."""
        records = self.batch(sequence, values, epoch)
        return self.produce_once(connection, topic, {partition: records}, version)[partition]

    def produce(self, connection: Connection, topic: str, batches: dict[int, bytes]) -> None:
        """Resend what was refused for now, with a random pause, until all of it is accepted."""
        while batches:
            answers = self.produce_once(connection, topic, batches)
            for answer in answers.values():
                if answer.code in RETRIABLE:
                    self.retries[f"Produce {text(answer.code)}"] += 1
                else:
                    assert answer.code is NONE, f"Produce: {text(answer.code)}"
            batches = {number: records for number, records in batches.items() if answers[number].code is not NONE}
            if batches:
                time.sleep(random.uniform(0.002, 0.010))


def produced(answer: Any) -> dict[int, Answer]:
    """The answer to each partition of a Produce request to one topic."""
    return {
        one.index: Answer(ErrorCode(one.error_code), one.base_offset)
        for topic in answer.responses
        for one in topic.partition_responses
    }


def text(code: ErrorCode) -> str:
    return "NONE" if code is NONE else f"{code.name.upper()}({int(code)})"


@dataclass(frozen=True, slots=True)
class Finding:
    """One situation: what the broker did, and what it has to do."""

    situation: str
    observed: object
    expected: object

    def __str__(self) -> str:
        return f"{self.situation}: {shown(self.observed)}, not {shown(self.expected)}"


def shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(shown, value))
    return text(value) if isinstance(value, ErrorCode) else str(value)


def differing(findings: Iterable[Finding]) -> list[str]:
    """Every situation in which the broker did something else: an empty list when all is as it should be."""
    return [str(one) for one in findings if one.observed != one.expected]
