"""A Produce request that a network holds up, and the end of its transaction: it lands in that one or in none."""

from __future__ import annotations

import threading

import pytest

from harness.names import unique
from harness.waiting import until
from oncelog.client import (
    Client,
    Consumer,
    GroupMetadata,
    IsolationLevel,
    OffsetAndMetadata,
    OffsetSpec,
    Producer,
    TopicPartition,
    TransactionFailed,
    TransactionVersion,
)
from oncelog.client.producer import transaction
from oncelog.testing.proxy import ApiKey, Point, Proxy, Then

pytestmark = pytest.mark.drawn(6)


@pytest.fixture
def partition_count():
    return 2


@pytest.fixture(params=list(TransactionVersion), ids=lambda version: version.name)
def protocol(request, monkeypatch):
    """Both transaction protocols: a cluster with transaction.version 2 still speaks the older one."""

    async def chosen(_cluster):
        return request.param

    monkeypatch.setattr(transaction, "transaction_version", chosen)
    return request.param


def committed_values(log, topic):
    partitions = [TopicPartition(topic, number) for number in (0, 1)]
    with Client(log.bootstrap_servers) as client:
        # The end of a transaction is answered before its markers are written: the last stable offset comes later.
        ends = client.end_offsets(partitions, isolation_level=IsolationLevel.READ_UNCOMMITTED)
    values = []
    with Consumer(log.bootstrap_servers) as consumer:
        consumer.assign(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            values += [record.value for record in consumer.poll(100)]
    return sorted(values)


class Held:
    """The next Produce request waits in the proxy until `let_go`."""

    def __init__(self, proxy, then=Then.FORWARD):
        self._gate = threading.Event()
        self._rule = proxy.at_request(ApiKey.PRODUCE, call=lambda: self._gate.wait(60), then=then)
        self._proxy = proxy
        self._seen = proxy.counts[Point.REQUEST, ApiKey.PRODUCE]

    def wait_until_it_is_there(self):
        until(lambda: self._proxy.counts[Point.REQUEST, ApiKey.PRODUCE] > self._seen)

    def let_go(self, *, is_answered=True):
        answers = self._proxy.counts[Point.ANSWER, ApiKey.PRODUCE]
        self._gate.set()
        if is_answered:
            until(lambda: self._proxy.counts[Point.ANSWER, ApiKey.PRODUCE] > answers, 10)


@pytest.mark.parametrize("is_first", [True, False], ids=["first batch", "later batch"])
def test_abort_waits_for_a_batch_on_its_way_and_it_is_in_no_transaction(log, face, topic, protocol, is_first):
    with (
        Proxy(log.bootstrap_servers) as proxy,
        face.producer(proxy.bootstrap_servers, transactional_id=unique("late"), linger_ms=0) as producer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        if not is_first:
            producer.send(topic, b"aborted", partition=0).result()
        held = Held(proxy)
        producer.send(topic, b"late", partition=0)
        held.wait_until_it_is_there()
        aborting = threading.Thread(target=producer.abort_transaction)
        aborting.start()
        aborting.join(0.3)
        assert aborting.is_alive()
        assert proxy.counts[Point.REQUEST, ApiKey.END_TXN] == 0
        held.let_go()
        aborting.join(20)
        producer.begin_transaction()
        producer.send(topic, b"next", partition=0)
        producer.commit_transaction()
    assert committed_values(log, topic) == [b"next"]


def test_failed_transaction_is_aborted_only_when_nothing_of_it_is_on_its_way(log, topic, protocol):
    with (
        Proxy(log.bootstrap_servers) as proxy,
        Producer(proxy.bootstrap_servers, transactional_id=unique("late"), linger_ms=0) as producer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0).result()
        held = Held(proxy)
        producer.send(topic, b"late", partition=0)
        held.wait_until_it_is_there()
        # On a connection of its own, which asyncio does not have: a generation that the
        # group does not have fails the transaction at once.
        with pytest.raises(TransactionFailed):
            producer.send_offsets_to_transaction(*offsets_of_no_member(topic))
        aborting = threading.Thread(target=producer.abort_transaction)
        aborting.start()
        aborting.join(0.3)
        assert aborting.is_alive()
        assert proxy.counts[Point.REQUEST, ApiKey.END_TXN] == 0
        held.let_go()
        aborting.join(20)
        producer.begin_transaction()
        producer.send(topic, b"next", partition=0)
        producer.commit_transaction()
    assert committed_values(log, topic) == [b"next"]


def offsets_of_no_member(topic):
    return {TopicPartition(topic, 0): OffsetAndMetadata(1)}, GroupMetadata(unique("late"), 7, "nobody")


@pytest.mark.parametrize("meanwhile", ["nothing", "begun", "committed"])
def test_batch_that_comes_after_the_abort_is_refused_by_the_broker(log, face, topic, protocol, meanwhile):
    """Who gave the request up cannot know that it is still on its way. KIP-890: its epoch is over."""
    with (
        Proxy(log.bootstrap_servers) as proxy,
        face.producer(
            proxy.bootstrap_servers, transactional_id=unique("late"), linger_ms=0, request_timeout_ms=500
        ) as producer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0).result()
        held = Held(proxy, Then.FORWARD_AND_CUT)
        producer.send(topic, b"late", partition=0)
        held.wait_until_it_is_there()
        producer.abort_transaction()
        if meanwhile == "nothing":
            held.let_go()
        producer.begin_transaction()
        if meanwhile == "begun":
            producer.send(topic, b"next", partition=1).result()
            held.let_go()
        producer.send(topic, b"next", partition=0)
        producer.commit_transaction()
        if meanwhile == "committed":
            held.let_go()
        producer.begin_transaction()
        producer.send(topic, b"last", partition=0)
        producer.commit_transaction()
    assert committed_values(log, topic) == [b"last", b"next"] + [b"next"] * (meanwhile == "begun")


def test_commit_waits_for_a_batch_on_its_way(log, face, topic, protocol):
    with (
        Proxy(log.bootstrap_servers) as proxy,
        face.producer(proxy.bootstrap_servers, transactional_id=unique("late"), linger_ms=0) as producer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        held = Held(proxy)
        producer.send(topic, b"late", partition=0)
        held.wait_until_it_is_there()
        committing = threading.Thread(target=producer.commit_transaction)
        committing.start()
        committing.join(0.3)
        assert committing.is_alive()
        assert proxy.counts[Point.REQUEST, ApiKey.END_TXN] == 0
        held.let_go()
        committing.join(20)
    assert committed_values(log, topic) == [b"late"]


def test_batch_sent_twice_is_committed_once_however_late_the_first_copy_is(log, face, topic, protocol):
    """The second copy is acknowledged and committed; the first arrives in the transaction after.

    With the first protocol Kafka holds its sequence for the one that is to come next, and refuses what does: the transaction
    has failed then, is aborted and tried again. The session guard of oncelog does not answer the first copy.
    """
    with (
        Proxy(log.bootstrap_servers) as proxy,
        face.producer(
            proxy.bootstrap_servers, transactional_id=unique("late"), linger_ms=0, request_timeout_ms=500
        ) as producer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        held = Held(proxy, Then.FORWARD_AND_CUT)
        producer.send(topic, b"twice", partition=0)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(topic, b"next", partition=1).result()
        held.let_go(is_answered=protocol is TransactionVersion.TV2 or log.name != "oncelog")
        try:
            producer.send(topic, b"next", partition=0)
            producer.commit_transaction()
        except TransactionFailed:
            assert protocol is TransactionVersion.TV1
            producer.abort_transaction()
            producer.begin_transaction()
            for partition in (0, 1):
                producer.send(topic, b"next", partition=partition)
            producer.commit_transaction()
    assert committed_values(log, topic) == [b"next", b"next", b"twice"]
