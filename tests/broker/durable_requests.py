"""Requests whose answers must hold after a crash: how each is asked, and what its answer says that a start must show."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from harness.broker_in_memory import BrokerInMemory, Reply
from harness.transaction_in_memory import GROUP, MINUTE, NONE, TOPIC, TV1, TV2, ProducerInMemory, Protocol, visible
from oncelog.broker.storage.topics import Topic
from oncelog.records import Record, batches, build_batch, decode_batch
from oncelog.wire import ErrorCode

HOME, OTHER = "/data", "/more"
FEATURE = "transaction.version"
TIMED_OUT_MS = 120_000
EXISTS, UNKNOWN, FEWER = (
    ErrorCode.topic_already_exists,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.invalid_partitions,
)


class DurableRequests(ABC):
    """Two requests of one kind, 0 and 1. A subclass's object is for one broker, and keeps what it learns of it."""

    STEPS_BETWEEN = 0
    """Up to so many steps of the disk come between `meanwhile` and request 1."""
    survives_a_power_cut = True
    """Without it an answer is true as long as the machine is up."""

    def __init__(self, broker: BrokerInMemory) -> None:
        self.broker = broker

    @abstractmethod
    def prepare(self) -> None:
        """Make what the requests are about."""

    @abstractmethod
    def send(self, number: int) -> Reply: ...

    def meanwhile(self) -> None:
        """Do what is done while request 0 waits, if anything is."""
        return

    def see(self) -> None:
        """Note what everybody is shown at the moment of the crash."""
        return

    @abstractmethod
    def check(self, answers: Sequence[Any]) -> None:
        """Assert that what was answered holds; None stands for an answer that did not come."""

    def topic(self, name: str) -> Topic | None:
        return self.broker.core.topics.named(name)

    def make(self, name: str, partitions: int = 1, **configs: str) -> None:
        answer = self.ask_to_make(name, partitions, **configs)
        while not answer.came:
            assert self.broker.disk.take_step()
        assert answer.message.topics[0].error_code is NONE, answer.message

    def ask_to_make(self, name: str, partitions: int = 1, **configs: str) -> Reply:
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": [],
            "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
        }
        return self.broker.send("create_topics", 7, topics=[topic], timeout=MINUTE, validate_only=False)

    def send_records(self, name: str, *values: bytes, partition: int = 0) -> Reply:
        batch = build_batch([Record(None, value, timestamp_ms=self.broker.clock.now_ms()) for value in values])
        data = [{"name": name, "partition_data": [{"index": partition, "records": batch}]}]
        return self.broker.send("produce", 9, transactional_id=None, acks=-1, timeout=MINUTE, topic_data=data)

    def write(self, name: str, *values: bytes) -> None:
        reply = self.send_records(name, *values)
        while not reply.came:
            assert self.broker.disk.take_step()
        assert reply.message.responses[0].partition_responses[0].error_code is NONE

    def values(self, name: str, partition: int = 0) -> list[bytes]:
        """All that is in a log that begins at offset 0."""
        found = self.broker.core.topics.partition(name, partition)
        assert found is not None
        data = found.log.read(0, 1_000_000, found.log.log_end_offset).data
        every = [record.value or b"" for place, _ in batches(data) for record in decode_batch(data, place)]
        return [value for value in every if value]


def _error(answer: Any) -> ErrorCode:
    return answer.error_code  # type: ignore[no-any-return]


# --- topics


class MakeOneTopic(DurableRequests):
    def prepare(self) -> None:
        self.make("before")

    def name(self, number: int) -> str:
        return "made"

    def send(self, number: int) -> Reply:
        return self.ask_to_make(self.name(number), number + 1)

    def check(self, answers: Sequence[Any]) -> None:
        for number, answer in enumerate(answers):
            if answer is None:
                continue
            (told,) = answer.topics
            assert told.error_code in (NONE, EXISTS), told
            found = self.topic(self.name(number))
            assert found is not None, "a topic that was said to be there is not"
            if told.error_code is NONE:
                assert (found.topic_id, len(found.partitions)) == (told.topic_id, told.num_partitions)


class MakeTwoTopics(MakeOneTopic):
    def name(self, number: int) -> str:
        return f"made-{number}"


class MakeTopicsOnDemand(DurableRequests):
    """Metadata makes what is missing, and says it again until it is there."""

    def prepare(self) -> None:
        self.make("before")

    def send(self, number: int) -> Reply:
        topics = [{"topic_id": None, "name": "demanded"}]
        return self.broker.send(
            "metadata", 12, topics=topics, allow_auto_topic_creation=True, include_topic_authorized_operations=False
        )

    def check(self, answers: Sequence[Any]) -> None:
        for answer in answers:
            if answer is not None and answer.topics[0].error_code is NONE:
                found = self.topic("demanded")
                assert found is not None
                assert found.topic_id == answer.topics[0].topic_id


class DeleteOneTopic(DurableRequests):
    def prepare(self) -> None:
        for number in (0, 1):
            self.make(f"going-{number}", 2)
            self.write(f"going-{number}", b"x")

    def name(self, number: int) -> str:
        return "going-0"

    def send(self, number: int) -> Reply:
        topics = [{"name": self.name(number), "topic_id": None}]
        return self.broker.send("delete_topics", 6, topics=topics, timeout=MINUTE)

    def check(self, answers: Sequence[Any]) -> None:
        for number, answer in enumerate(answers):
            if answer is not None:
                assert answer.responses[0].error_code in (NONE, UNKNOWN), answer
                assert self.topic(self.name(number)) is None, "a topic that was said to be gone is there"


class DeleteTwoTopics(DeleteOneTopic):
    def name(self, number: int) -> str:
        return f"going-{number}"


class AddPartitionsToATopic(DurableRequests):
    def prepare(self) -> None:
        self.make("growing")

    def send(self, number: int) -> Reply:
        asked = {"name": "growing", "count": (2, 4)[number], "assignments": None}
        return self.broker.send("create_partitions", 3, topics=[asked], timeout=MINUTE, validate_only=False)

    def check(self, answers: Sequence[Any]) -> None:
        found = self.topic("growing")
        assert found is not None
        for count, answer in zip((2, 4), answers, strict=True):
            if answer is not None:
                assert answer.results[0].error_code in (NONE, FEWER), answer
                assert len(found.partitions) >= count


class AddTheSamePartitions(AddPartitionsToATopic):
    def send(self, number: int) -> Reply:
        return super().send(1)

    def check(self, answers: Sequence[Any]) -> None:
        super().check([None, answers[0] or answers[1]])


class DeleteRecords(DurableRequests):
    offsets: tuple[int, int] = (3, 7)

    def prepare(self) -> None:
        self.make("trimmed")
        self.write("trimmed", *(b"x" for _ in range(10)))

    def send(self, number: int) -> Reply:
        topics = [{"name": "trimmed", "partitions": [{"partition_index": 0, "offset": self.offsets[number]}]}]
        return self.broker.send("delete_records", 2, topics=topics, timeout=MINUTE)

    def check(self, answers: Sequence[Any]) -> None:
        partition = self.broker.core.topics.partition("trimmed", 0)
        assert partition is not None
        for answer in answers:
            if answer is not None:
                (told,) = answer.topics[0].partitions
                assert told.error_code is NONE
                assert partition.log.log_start_offset >= told.low_watermark, "what was deleted is back"


class DeleteFewerRecords(DeleteRecords):
    offsets = (7, 3)


class DeleteAllRecords(DeleteRecords):
    offsets = (5, -1)


class DeleteRecordsThatAge(DeleteRecords):
    """The log begins later of itself while the first request waits."""

    def prepare(self) -> None:
        self.make("trimmed", segment_ms="1", retention_ms="1000")
        for _ in range(5):
            self.write("trimmed", b"x", b"x")
            self.broker.clock.advance(10)
        partition = self.broker.core.topics.partition("trimmed", 0)
        assert partition is not None
        self.broker.core.durability.make_durable([partition.log])

    def meanwhile(self) -> None:
        partition = self.broker.core.topics.partition("trimmed", 0)
        assert partition is not None
        partition.log.retention.leave_expired(self.broker.clock.now_ms() + 2000)


# --- settings


class AlterOneSetting(DurableRequests):
    kind, resource = 2, "altered"
    changes = (("retention.ms", "60000"), ("retention.ms", "70000"))
    """Of topics, brokers or groups: what each request sets."""

    def prepare(self) -> None:
        self.make("altered")

    def send(self, number: int) -> Reply:
        name, value = self.changes[number]
        configs = [{"name": name, "config_operation": 0, "value": value}]
        resources = [{"resource_type": self.kind, "resource_name": self.resource, "configs": configs}]
        return self.broker.send("incremental_alter_configs", 1, resources=resources, validate_only=False)

    def check(self, answers: Sequence[Any]) -> None:
        asked = [{"resource_type": self.kind, "resource_name": self.resource, "configuration_keys": None}]
        found = self.broker.ask(
            "describe_configs", 4, resources=asked, include_synonyms=False, include_documentation=False
        )
        values = {one.name: one.value for one in found.results[0].configs}
        for number, answer in enumerate(answers):
            if answer is not None:
                assert answer.responses[0].error_code is NONE, answer
                later = [value for name, value in self.changes[number:] if name == self.changes[number][0]]
                assert values[self.changes[number][0]] in later


class AlterTwoSettings(AlterOneSetting):
    changes = (("retention.ms", "60000"), ("flush.messages", "7"))


class AlterTheBroker(AlterOneSetting):
    kind, resource = 4, ""
    changes = (("log.retention.ms", "60000"), ("log.retention.ms", "70000"))


class AlterAGroup(AlterOneSetting):
    kind, resource = 32, "settled"
    changes = (("consumer.session.timeout.ms", "50000"), ("consumer.session.timeout.ms", "55000"))


class UpdateFeatures(DurableRequests):
    def prepare(self) -> None:
        """It begins with level 2."""

    def send(self, number: int) -> Reply:
        update = {"feature": FEATURE, "max_version_level": 1 - number, "upgrade_type": 2}
        return self.broker.send("update_features", 1, timeout=MINUTE, feature_updates=[update], validate_only=False)

    def check(self, answers: Sequence[Any]) -> None:
        level = self.broker.core.features.levels.get(FEATURE, 0)
        for highest, answer in zip((1, 0), answers, strict=True):
            if answer is not None:
                assert _error(answer) is NONE
                assert level <= highest


# --- producers


class GiveOutProducerIds(DurableRequests):
    """The next block is fetched under way: the tests make blocks small."""

    def prepare(self) -> None:
        for _ in range(2):
            self.init()

    def init(self, transactional_id: str | None = None) -> Any:
        return self.broker.ask("init_producer_id", 4, transactional_id=transactional_id, transaction_timeout=MINUTE)

    def send(self, number: int) -> Reply:
        return self.broker.send("init_producer_id", 4, transactional_id=None, transaction_timeout=MINUTE)

    def check(self, answers: Sequence[Any]) -> None:
        given = [answer.producer_id for answer in answers if answer is not None]
        assert len(set(given)) == len(given)
        assert self.init().producer_id not in given, "a producer id is given out twice"


class FenceAProducer(GiveOutProducerIds):
    """Each request fences the producer before."""

    def prepare(self) -> None:
        self.broker.ask("find_coordinator", 3, key="fenced", key_type=1)
        assert self.init("fenced").error_code is NONE

    def send(self, number: int) -> Reply:
        return self.broker.send("init_producer_id", 4, transactional_id="fenced", transaction_timeout=MINUTE)

    def check(self, answers: Sequence[Any]) -> None:
        given = [(one.producer_id, one.producer_epoch) for one in answers if one is not None and _error(one) is NONE]
        assert len(set(given)) == len(given)
        now = self.init("fenced")
        assert now.error_code is NONE
        for producer_id, epoch in given:
            assert producer_id != now.producer_id or epoch < now.producer_epoch, "an epoch is given out twice"


class EndTwoTransactions(DurableRequests):
    protocol: Protocol = TV2
    asked: tuple[int, int] = (0, 1)
    """Whose transaction each request ends."""

    def prepare(self) -> None:
        self.make(TOPIC, 2)
        self.producers = [
            ProducerInMemory(self.broker, self.protocol, f"teller-{number}", f"{GROUP}-{number}") for number in (0, 1)
        ]
        for number, producer in enumerate(self.producers):
            producer.write(f"{number}", number + 1)

    def send(self, number: int) -> Reply:
        return self.producers[self.asked[number]].send_end(committed=True)

    def check(self, answers: Sequence[Any]) -> None:
        # After a kill the other one is open still, and times out.
        self.broker.clock.advance(TIMED_OUT_MS)
        self.broker.settle()
        for number, answer in zip(self.asked, answers, strict=True):
            if answer is not None and _error(answer) is not ErrorCode.concurrent_transactions:
                assert _error(answer) is NONE, answer
                self.check_committed(number)

    def check_committed(self, number: int) -> None:
        for partition in (0, 1):
            assert f"{number}" in visible(self.broker, partition), "a commit that was answered is lost"
        offsets = self.broker.core.offsets.coordinator.offsets_of(f"{GROUP}-{number}", require_stable=False).committed
        assert offsets[TOPIC, 0].committed.offset == number + 1


class EndATransactionThatWasWrittenMeanwhile(EndTwoTransactions):
    """Its records join the partition while the end of the other one is made durable."""

    STEPS_BETWEEN = 2

    def prepare(self) -> None:
        super().prepare()
        self.producers[1].end(committed=False)

    def meanwhile(self) -> None:
        self.producers[1].write("1", 2)


class EndTwoTransactionsOfTheFirstGeneration(EndTwoTransactions):
    protocol = TV1


class EndOneTransactionTwice(EndTwoTransactions):
    """The answer was lost, and the client asks again."""

    asked = (0, 0)


class AddTwoPartitions(DurableRequests):
    """They are of an open transaction, which a power cut aborts."""

    survives_a_power_cut = False

    def prepare(self) -> None:
        self.make(TOPIC, 2)
        self.producer = ProducerInMemory(self.broker, TV1)

    def send(self, number: int) -> Reply:
        return self.broker.send(
            "add_partitions_to_txn",
            3,
            v3_and_below_transactional_id=self.producer.transactional_id,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=[{"name": TOPIC, "partitions": [number]}],
        )

    def check(self, answers: Sequence[Any]) -> None:
        (known,) = self.broker.core.transactions.coordinator.transactions()
        for number, answer in enumerate(answers):
            if answer is not None:
                (told,) = answer.results_by_topic_v3_and_below[0].results_by_partition
                assert told.partition_error_code is NONE
                assert (TOPIC, number) in known.partitions


class CommitOffsetsInATransaction(DurableRequests):
    survives_a_power_cut = False

    def prepare(self) -> None:
        self.make(TOPIC, 2)
        self.producer = ProducerInMemory(self.broker, TV2)

    def send(self, number: int) -> Reply:
        partition = {"partition_index": number, "committed_offset": number + 1, "committed_metadata": None}
        return self.broker.send(
            "txn_offset_commit",
            5,
            transactional_id=self.producer.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            group_id=GROUP,
            topics=[{"name": TOPIC, "partitions": [partition]}],
        )

    def check(self, answers: Sequence[Any]) -> None:
        self.producer.end(committed=True)
        self.broker.settle()
        offsets = self.broker.core.offsets.coordinator.offsets_of(GROUP, require_stable=True).committed
        for number, answer in enumerate(answers):
            if answer is not None:
                assert answer.topics[0].partitions[0].error_code is NONE, answer
                assert offsets[TOPIC, number].committed.offset == number + 1


# --- records and offsets


class WriteRecords(DurableRequests):
    """With flush.messages=1 each is answered when it is durable."""

    partitions = 1

    def prepare(self) -> None:
        self.make("flushed", 2, flush_messages="1")
        self.write("flushed", b"first")

    def send(self, number: int) -> Reply:
        return self.send_records("flushed", b"%d" % number, partition=number % self.partitions)

    def check_answers(self, answers: Sequence[Any]) -> None:
        for number, answer in enumerate(answers):
            if answer is not None:
                assert answer.responses[0].partition_responses[0].error_code is NONE
                assert b"%d" % number in self.values("flushed", number % self.partitions), "a record is lost"

    def see(self) -> None:
        """Nobody reads what a power cut could still take."""
        topic = self.topic("flushed")
        assert topic is not None
        self.seen = [partition.log.high_watermark for partition in topic.partitions]

    def check(self, answers: Sequence[Any]) -> None:
        topic = self.topic("flushed")
        assert topic is not None
        for partition, seen in zip(topic.partitions, self.seen, strict=True):
            assert partition.log.log_end_offset >= seen, "a record that could be read is lost"
        self.check_answers(answers)


class WriteRecordsToTwoPartitions(WriteRecords):
    partitions = 2


class WriteLargeRecords(WriteRecords):
    """More than the write-ahead log takes."""

    def send(self, number: int) -> Reply:
        return self.send_records("flushed", b"%d" % number, b"x" * 70_000)


class CommitOffsets(DurableRequests):
    survives_a_power_cut = False

    def prepare(self) -> None:
        self.make("read", 2)
        for group in ("one", "two"):
            self.broker.ask("find_coordinator", 3, key=group, key_type=0)

    def send(self, number: int) -> Reply:
        return self.commit("one", 0, number + 1)

    def commit(self, group: str, partition: int, offset: int) -> Reply:
        asked = {"partition_index": partition, "committed_offset": offset, "committed_metadata": None}
        return self.broker.send(
            "offset_commit", 8, group_id=group, member_id="", topics=[{"name": "read", "partitions": [asked]}]
        )

    def offset(self, group: str, partition: int) -> int:
        offsets = self.broker.core.offsets.coordinator.offsets_of(group, require_stable=False).committed
        stored = offsets.get(("read", partition))
        return -1 if stored is None else stored.committed.offset

    def check(self, answers: Sequence[Any]) -> None:
        for number, answer in enumerate(answers):
            if answer is not None:
                assert answer.topics[0].partitions[0].error_code is NONE
                assert self.offset("one", 0) >= number + 1


class DeleteOffsets(CommitOffsets):
    def prepare(self) -> None:
        super().prepare()
        for group in ("one", "two"):
            for partition in (0, 1):
                assert self.commit(group, partition, 5).came

    def send(self, number: int) -> Reply:
        topics = [{"name": "read", "partitions": [{"partition_index": number}]}]
        return self.broker.send("offset_delete", 0, group_id="one", topics=topics)

    def check(self, answers: Sequence[Any]) -> None:
        for number, answer in enumerate(answers):
            if answer is not None:
                assert _error(answer) is NONE
                assert self.offset("one", number) == -1


class DeleteGroups(DeleteOffsets):
    groups: tuple[str, str] = ("one", "two")

    def send(self, number: int) -> Reply:
        return self.broker.send("delete_groups", 2, groups_names=[self.groups[number]])

    def check(self, answers: Sequence[Any]) -> None:
        for group, answer in zip(self.groups, answers, strict=True):
            if answer is not None:
                assert answer.results[0].error_code in (NONE, ErrorCode.group_id_not_found)
                assert [self.offset(group, partition) for partition in (0, 1)] == [-1, -1]


class DeleteOneGroup(DeleteGroups):
    groups = ("one", "one")


class MoveAPartition(DurableRequests):
    """There and back, with a record that is durable meanwhile. It is somewhere, and whole."""

    paths: tuple[str, str] = (OTHER, HOME)

    def prepare(self) -> None:
        self.make("moved", flush_messages="1")
        self.write("moved", b"first")

    def send(self, number: int) -> Reply:
        topics = [{"name": "moved", "partitions": [0]}]
        return self.broker.send("alter_replica_log_dirs", 2, dirs=[{"path": self.paths[number], "topics": topics}])

    def check(self, answers: Sequence[Any]) -> None:
        for answer in answers:
            assert answer is None or answer.results[0].partitions[0].error_code is NONE
        assert self.values("moved") == [b"first"]


class MoveAPartitionTwice(MoveAPartition):
    paths = (OTHER, OTHER)


def leaves(kind: type[DurableRequests]) -> list[type[DurableRequests]]:
    """Every kind that can be asked, each once."""
    found = [] if getattr(kind, "__abstractmethods__", None) else [kind]
    for one in kind.__subclasses__():
        found += leaves(one)
    return found


EVERY_KIND: tuple[Callable[[BrokerInMemory], DurableRequests], ...] = tuple(leaves(DurableRequests))
