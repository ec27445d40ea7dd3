"""One producer of a broker in memory: a transaction with records in two partitions and the offsets of a group."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode

from harness.broker_in_memory import BrokerInMemory, Reply
from oncelog.records import Record, batches, build_batch, decode_batch

TOPIC = "ledger"
GROUP = "tellers"
NONE = ErrorCode.none
MINUTE = timedelta(minutes=1)
READ_COMMITTED = 1


@dataclass(frozen=True)
class Protocol:
    """The versions that one generation of clients uses."""

    name: str
    produce: int
    offsets: int
    end: int

    @property
    def adds_by_itself(self) -> bool:
        return self.produce >= 12

    def __str__(self) -> str:
        return self.name


TV1 = Protocol("TV1", 9, 3, 3)
TV2 = Protocol("TV2", 12, 5, 5)


class ProducerInMemory:
    """Keeps the producer id, epoch and sequences of one transactional id."""

    def __init__(
        self, broker: BrokerInMemory, protocol: Protocol, transactional_id: str = "teller", group: str = GROUP
    ) -> None:
        self.broker = broker
        self.protocol = protocol
        self.transactional_id = transactional_id
        self.group = group
        self.sequence = 0
        for key, kind in ((transactional_id, 1), (group, 0)):
            broker.ask("find_coordinator", 3, key=key, key_type=kind)
        answer = broker.ask("init_producer_id", 4, transactional_id=transactional_id, transaction_timeout=MINUTE)
        assert answer.error_code is NONE, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def write(self, value: str, offset: int) -> None:
        """One record in each of two partitions and one committed offset, all acknowledged."""
        if not self.protocol.adds_by_itself:
            self.add_partitions()
        for partition in (0, 1):
            error = self.produce(value, partition)
            assert error is NONE, error
        self.sequence += 1
        self.commit_offset(offset)

    def add_partitions(self) -> None:
        answer = self.broker.ask(
            "add_partitions_to_txn",
            3,
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[{"name": TOPIC, "partitions": [0, 1]}],
        )
        (topic,) = answer.results_by_topic_v3_and_below
        assert {result.partition_error_code for result in topic.results_by_partition} == {NONE}, answer
        answer = self.broker.ask("add_offsets_to_txn", 3, **self._identity(), group_id=self.group)
        assert answer.error_code is NONE, answer

    def produce(self, value: str, partition: int) -> ErrorCode:
        batch = build_batch(
            [Record(None, value.encode(), timestamp_ms=self.broker.clock.now_ms())],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        answer = self.broker.ask(
            "produce",
            self.protocol.produce,
            transactional_id=self.transactional_id,
            acks=-1,
            timeout=MINUTE,
            topic_data=[{"name": TOPIC, "partition_data": [{"index": partition, "records": batch}]}],
        )
        return answer.responses[0].partition_responses[0].error_code

    def commit_offset(self, offset: int) -> None:
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": f"at {offset}"}
        answer = self.broker.ask(
            "txn_offset_commit",
            self.protocol.offsets,
            **self._identity(),
            group_id=self.group,
            topics=[{"name": TOPIC, "partitions": [partition]}],
        )
        assert answer.topics[0].partitions[0].error_code is NONE, answer

    def send_end(self, *, committed: bool) -> Reply:
        return self.broker.send("end_txn", self.protocol.end, **self._identity(), committed=committed)

    def end(self, *, committed: bool) -> None:
        answer = self.broker.ask("end_txn", self.protocol.end, **self._identity(), committed=committed)
        assert answer.error_code is NONE, answer
        self._take_epoch(answer)

    def take_epoch(self, reply: Reply) -> None:
        """Go on from the answer to `send_end`."""
        self._take_epoch(reply.message)

    def _take_epoch(self, answer: Any) -> None:
        if self.protocol.end >= 5:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequence = 0

    def _identity(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }


def make_topic(broker: BrokerInMemory) -> None:
    topic = {"name": TOPIC, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
    answer = broker.ask("create_topics", 5, topics=[topic], timeout=MINUTE)
    assert answer.topics[0].error_code is NONE, answer
    broker.settle()


def visible(broker: BrokerInMemory, partition: int, start: int = 0) -> list[str]:
    """What a read_committed reader sees of one partition, aborted records left out by the rule of the protocol."""
    asked = {"partition": partition, "fetch_offset": start, "partition_max_bytes": 2**20}
    answer = broker.ask(
        "fetch",
        11,
        max_wait=timedelta(0),
        min_bytes=0,
        isolation_level=READ_COMMITTED,
        topics=[{"topic": TOPIC, "partitions": [asked]}],
        forgotten_topics_data=[],
    )
    (found,) = answer.responses[0].partitions
    assert found.error_code is NONE, found
    starts = [(entry.first_offset, entry.producer_id) for entry in found.aborted_transactions]
    assert starts == sorted(starts), "the aborted list is sorted by first offset"
    aborting: set[int] = set()
    values: list[str] = []
    for position, header in batches(found.records):
        while starts and starts[0][0] <= header.last_offset:
            aborting.add(starts.pop(0)[1])
        if header.is_control:
            aborting.discard(header.producer_id)
        elif header.producer_id not in aborting or not header.is_transactional:
            values += [(record.value or b"").decode() for record in decode_batch(found.records, position)]
    return values


def committed_offset(broker: BrokerInMemory) -> int:
    """The offset of the group; fails while a transaction that would change it is open."""
    answer = broker.ask(
        "offset_fetch",
        7,
        group_id=GROUP,
        topics=[{"name": TOPIC, "partition_indexes": [0]}],
        require_stable=True,
    )
    (found,) = answer.topics[0].partitions
    assert found.error_code is NONE, found
    return int(found.committed_offset)
