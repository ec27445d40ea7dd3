"""Several brokers in memory that know of each other: a test says who leads a partition, and what becomes of what they send.

What a broker has appended to a coordinator's topic is copied to whoever leads the partition next, as replicas would have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import make_topic
from harness.wire import parse, request_payload
from oncelog.broker import journal_metadata
from oncelog.broker.coordinators.known_brokers import (
    AWAY,
    GONE,
    BrokerAddress,
    Leader,
    MarkerErrors,
    MarkersOfProducer,
    OneBroker,
)
from oncelog.broker.coordinators.markers import marker_errors, markers_request
from oncelog.broker.storage.partition import Partition
from oncelog.coordination import Promise
from oncelog.log import Appended, Origin
from oncelog.records import batches
from oncelog.wire import ErrorCode, encode

COORDINATED = ("__transaction_state", "__consumer_offsets")
MARKERS_VERSION = 1
Key = tuple[str, int]


class SentMarkers:
    """A WriteTxnMarkers request on its way."""

    def __init__(self, sender: int, receiver: int, markers: Sequence[MarkersOfProducer]) -> None:
        self.sender = sender
        self.receiver = receiver
        self.markers = tuple(markers)
        self.answer: Promise[MarkerErrors | None] = Promise()


class _OneOfMany:
    """What a broker knows of the others: at its start nothing."""

    def __init__(self, *parts: Any) -> None:
        self.knows: Any = OneBroker(*parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.knows, name)


class BrokersInMemory:
    """Each has the id of its place; partition leaders are those of `leaders`, in the epochs of `epochs`."""

    def __init__(self, count: int, **settings: str) -> None:
        few = {"offsets_topic_num_partitions": "2", "transaction_state_log_num_partitions": "2"} | settings
        with patch.object(journal_metadata, "OneBroker", _OneOfMany):
            self.brokers = [
                BrokerInMemory(SteppedDisk(), ManualClock(), node_id=str(node_id), **few) for node_id in range(count)
            ]
        self.leaders: dict[Key, Leader] = {}
        self.epochs: dict[Key, int] = {}
        self.sent: list[SentMarkers] = []
        self.uncommitted: dict[Key, list[Promise[ErrorCode]]] = {}
        self.held_back: set[Key] = set()
        self.untold: set[Key] = set()
        """There are these partitions, and no broker was told of them."""
        self.unaware: set[int] = set()
        """These brokers are told of no leader that changes, and do not know that they lead no more."""
        for node_id, broker in enumerate(self.brokers):
            make_topic(broker)
            for key, kind in (("any", 1), ("any", 0)):
                broker.ask("find_coordinator", 3, key=key, key_type=kind)
            one: Any = broker.core.known_brokers
            one.knows = _View(self, node_id)
        for topic in self.brokers[0].core.topics:
            for index in range(len(topic.partitions)):
                self.lead(topic.name, index, 0)

    # --- who leads

    def lead(self, topic: str, index: int, leader: Leader) -> None:
        """Have a broker lead a partition from now on, or nobody."""
        key = (topic, index)
        before = self.leaders.get(key)
        if topic in COORDINATED and isinstance(before, int) and isinstance(leader, int):
            self._copy(key, before, leader)
        epoch = self.epochs[key] = self.epochs.get(key, 0) + 1
        self.leaders[key] = leader
        for node_id, broker in enumerate(self.brokers):
            if topic in COORDINATED and node_id != leader and node_id not in self.unaware:
                self.elections(broker, topic).resigned(index, epoch)
        for promise in self.uncommitted.pop(key, ()):
            promise.resolve(ErrorCode.not_leader_or_follower)
        if topic in COORDINATED and isinstance(leader, int):
            self.elections(self.brokers[leader], topic).elected(index, epoch)
        for broker in self.brokers:
            broker.core.transactions.leaders_changed()

    @staticmethod
    def elections(broker: BrokerInMemory, topic: str) -> Any:
        core = broker.core
        return core.transactions.elections if topic == "__transaction_state" else core.group_elections

    def partition(self, node_id: int, key: Key) -> Partition:
        found = self.brokers[node_id].core.topics.partition(*key)
        assert found is not None, key
        return found

    def _copy(self, key: Key, source: int, target: int) -> None:
        """What the next leader lacks of the log of the one before."""
        old, new = self.partition(source, key).log, self.partition(target, key)
        offset = new.log.log_end_offset
        while offset < old.log_end_offset:
            data, offset = old.read(offset, 2**20, old.log_end_offset)
            for position, header in batches(data):
                batch = bytes(data)[position : position + header.size_bytes]
                if header.is_control:
                    assert key[0] == "__consumer_offsets", "no marker goes to the transaction log"
                    raise AssertionError("a log with markers is not copied here")
                result = new.append(batch, header, Origin.OBLIGED, verified=True)
                assert isinstance(result, Appended), result

    # --- what is sent, and when

    def settle(self) -> None:
        """Let every disk do its work, and what is due now be done."""
        moved = True
        while moved:
            moved = False
            for broker in self.brokers:
                broker.clock.advance(0)
                while broker.disk.take_step():
                    moved = True

    def advance(self, duration_ms: float) -> None:
        for broker in self.brokers:
            broker.clock.advance(duration_ms)
        self.settle()

    def receive(self, sent: SentMarkers, then: Callable[[MarkerErrors], None]) -> None:
        """Have the receiver serve what was sent, as bytes."""
        core = self.brokers[sent.receiver].core
        body = markers_request(MARKERS_VERSION, sent.markers)
        header = request_payload("write_txn_markers", MARKERS_VERSION, {"markers": []}, "broker")[:-2]
        payload = header + b"".join(bytes(chunk) for chunk in encode(body))

        def answered(chunks: Any) -> None:
            frame = b"".join(bytes(chunk) for chunk in chunks)
            then(marker_errors(parse("write_txn_markers", MARKERS_VERSION, frame[4:])))

        answer = core.receive(self.brokers[sent.receiver].connection, memoryview(payload))
        answer.then(answered) if isinstance(answer, Promise) else answered(answer)

    def carry(self, *, answers: bool = True, arrives: bool = True) -> None:
        """Carry all that is on its way now; without `answers` the connection breaks after it `arrives`, or before."""
        on_their_way, self.sent = self.sent, []
        for sent in on_their_way:
            if not arrives:
                sent.answer.resolve(None)
            elif answers:
                self.receive(sent, sent.answer.resolve)
            else:
                self.receive(sent, lambda _: None)
                sent.answer.resolve(None)
        self.settle()

    def run(self) -> None:
        """Carry everything until nothing is left to be carried."""
        self.settle()
        for _ in range(200):
            if self.sent:
                self.carry()
            else:
                self.advance(1000)
                if not self.sent:
                    return
        raise AssertionError("they never come to rest")

    # --- copies

    def commit(self, key: Key) -> None:
        """The in-sync replicas have what the leader has."""
        self.held_back.discard(key)
        for promise in self.uncommitted.pop(key, ()):
            promise.resolve(ErrorCode.none)


class _View:
    """What one broker knows of the others."""

    has_others = True
    is_alive = True

    def __init__(self, brokers: BrokersInMemory, node_id: int) -> None:
        self._brokers = brokers
        self._node_id = node_id

    def is_gone(self, topic: str, index: int) -> Promise[bool]:
        return Promise.ready((topic, index) not in self._brokers.untold)

    def leader_of(self, topic: str, index: int) -> Leader:
        if (topic, index) in self._brokers.untold:
            return GONE
        found = self._brokers.brokers[self._node_id].core.topics.partition(topic, index)
        return GONE if found is None else self._brokers.leaders.get((topic, index), AWAY)

    def address_of(self, node_id: int, listener: str) -> BrokerAddress | None:
        return BrokerAddress(f"broker-{node_id}", 9092)

    def partition(self, topic: str, index: int) -> Partition | None:
        if self.leader_of(topic, index) != self._node_id:
            return None
        return self._brokers.partition(self._node_id, (topic, index))

    def send_markers(self, node_id: int, markers: Sequence[MarkersOfProducer]) -> Promise[MarkerErrors | None]:
        sent = SentMarkers(self._node_id, node_id, markers)
        self._brokers.sent.append(sent)
        return sent.answer

    def committed(self, partition: Partition, end_offset: int | None = None) -> Promise[ErrorCode]:
        key = (partition.topic, partition.index)
        if self._brokers.leaders[key] != self._node_id:
            return Promise.ready(ErrorCode.not_leader_or_follower)
        if key not in self._brokers.held_back:
            return Promise.ready(ErrorCode.none)
        promise: Promise[ErrorCode] = Promise()
        self._brokers.uncommitted.setdefault(key, []).append(promise)
        return promise
