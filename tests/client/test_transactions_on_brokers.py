"""Producers and readers on our broker and on Apache Kafka, and what they say when the network fails them."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.client import (
    AsyncConsumer,
    AsyncProducer,
    BatchSender,
    Client,
    Consumer,
    Fetcher,
    IsolationLevel,
    NewTopic,
    OffsetAndMetadata,
    OffsetOutOfRange,
    OffsetSpec,
    OutcomeUnknown,
    Producer,
    ProducerFenced,
    SharedProducer,
    TopicPartition,
    TransactionFailed,
    TransactionVersion,
)
from oncelog.client.producer import transaction
from oncelog.records import ControlType, Record, build_batch
from oncelog.testing.proxy import ApiKey, Proxy, Then

pytestmark = pytest.mark.on_a_cluster


@pytest.fixture
def topic(log, request):
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    with Client(log.bootstrap_servers) as client:
        client.create_topics([NewTopic(name, 2)])
        yield name
        client.delete_topics([name])


@pytest.fixture(params=list(TransactionVersion), ids=lambda version: version.name)
def protocol(request, monkeypatch):
    """Both transaction protocols: a cluster with transaction.version 2 still speaks the older one."""

    async def chosen(_cluster):
        return request.param

    monkeypatch.setattr(transaction, "transaction_version", chosen)
    return request.param


def read(log, topic, isolation_level=IsolationLevel.READ_COMMITTED, partitions=(0, 1)) -> list[bytes | None]:
    """Up to the high watermark: Apache Kafka answers EndTxn before the markers are written that move the last stable offset."""
    wanted = [TopicPartition(topic, number) for number in partitions]
    with Client(log.bootstrap_servers) as client:
        ends = client.end_offsets(wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED)
    values = []
    with Consumer(log.bootstrap_servers, isolation_level=isolation_level) as consumer:
        consumer.assign(dict.fromkeys(wanted, OffsetSpec.EARLIEST))
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            values += [record.value for record in consumer.poll()]
    return values


def committed(log, group) -> dict[TopicPartition, OffsetAndMetadata]:
    with Client(log.bootstrap_servers) as client:
        return client.committed_offsets(group)


def have_coordinator(log, transactional_id) -> None:
    """Be its producer once: the first question for a coordinator makes the topic of all of them, which takes its time."""
    with Producer(log.bootstrap_servers, transactional_id=transactional_id) as producer:
        producer.init_transactions()


def test_idempotent_records_arrive_with_all_they_carry(log, topic):
    with Producer(log.bootstrap_servers, compression="lz4") as producer:
        sent = [producer.send(topic, b"v%d" % n, key=b"k", headers=[("h", None)], timestamp_ms=n) for n in range(50)]
        producer.flush()
    first, last = sent[0].result(), sent[-1].result()
    assert (first.offset, last.offset, last.timestamp_ms) == (0, 49, 49)
    with Consumer(log.bootstrap_servers) as consumer:
        consumer.assign({TopicPartition(topic, first.partition): OffsetSpec.EARLIEST})
        record = consumer.poll(10_000)[7]
    assert (record.offset, record.key, record.value, record.headers) == (7, b"k", b"v7", (("h", None),))
    assert record.timestamp_ms == 7


def test_committed_transactions_are_read_and_aborted_ones_are_not(log, topic, protocol):
    partition = TopicPartition("input", 0)
    with Client(log.bootstrap_servers) as client:
        if client.metadata(["input"])["input"].error:
            client.create_topics([NewTopic("input", 1, 1)])
    with Producer(log.bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            for place in range(4):
                producer.send(topic, b"%d-%d" % (number, place), partition=place % 2)
            producer.flush()
            producer.send_offsets_to_transaction({partition: OffsetAndMetadata(number)}, topic)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        producer.begin_transaction()
        producer.commit_transaction()
    expected = sorted(b"%d-%d" % (number, place) for number in (0, 2, 4) for place in range(4))
    assert sorted(read(log, topic)) == expected
    assert len(read(log, topic, IsolationLevel.READ_UNCOMMITTED)) == 24
    assert committed(log, topic) == {partition: OffsetAndMetadata(4)}


def test_second_producer_fences_the_first(log, topic, protocol):
    with Producer(log.bootstrap_servers, transactional_id=topic) as first:
        first.init_transactions()
        first.begin_transaction()
        first.send(topic, b"zombie", partition=0).result()
        with Producer(log.bootstrap_servers, transactional_id=topic) as second:
            second.init_transactions()
            with pytest.raises(ProducerFenced, match="another producer has taken the transactional id"):
                first.commit_transaction()
            with pytest.raises(ProducerFenced):
                first.begin_transaction()
            second.begin_transaction()
            second.send(topic, b"owner", partition=0)
            second.commit_transaction()
    assert read(log, topic) == [b"owner"]


def test_refused_record_fails_its_transaction_and_not_the_next(log, topic):
    with Producer(log.bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, bytes(2_000_000), partition=0)
        producer.send(topic, b"with it", partition=1)
        with pytest.raises(TransactionFailed, match="MESSAGE_TOO_LARGE"):
            producer.commit_transaction()
        with pytest.raises(TransactionFailed):
            producer.send(topic, b"after it", partition=1)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"next", partition=1)
        producer.commit_transaction()
    assert read(log, topic) == [b"next"]


def batch(*values: bytes) -> bytes:
    return build_batch([Record(None, value, timestamp_ms=0) for value in values])


def send_and_wait(task: BatchSender, partition: TopicPartition) -> None:
    task.send({partition: [batch(b"late")]})
    task.flush()


def test_tasks_share_the_identity_of_a_driver(log, topic, protocol):
    partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with SharedProducer(log.bootstrap_servers, topic) as driver:
        driver.init()
        for number in range(4):
            identity = driver.bump()
            driver.add_partitions(partitions)
            for partition in partitions:
                with BatchSender(log.bootstrap_servers, topic, identity, driver.transaction_version) as task:
                    value = b"%d-%d" % (number, partition.partition)
                    task.send({partition: [batch(value), batch(value, value)]})
                    written = task.flush()[partition]
                    assert (written.records, written.batches) == (3, 2)
                    assert written.last_offset - written.first_offset == 2
            driver.commit_offsets(topic, {partitions[0]: OffsetAndMetadata(number, f"batch {number}")})
            driver.end(commit=number != 2)
    assert sorted(read(log, topic)) == sorted(3 * [b"%d-%d" % (n, p) for n in (0, 1, 3) for p in (0, 1)])
    assert committed(log, topic) == {partitions[0]: OffsetAndMetadata(3, "batch 3")}


def test_driver_waits_until_its_transaction_has_ended_and_goes_on_under_another_epoch(log, topic, protocol):
    partition = TopicPartition(topic, 0)
    with SharedProducer(log.bootstrap_servers, topic) as driver, Client(log.bootstrap_servers) as client:
        taken = driver.init()
        if protocol is TransactionVersion.TV2:
            assert driver.await_end() == taken
        for number in range(3):
            identity = driver.await_end()
            open_transactions = [
                state
                for state in client.describe_producers([partition])[partition]
                if state.transaction_start_offset >= 0
            ]
            assert open_transactions == []
            driver.add_partitions([partition])
            with BatchSender(log.bootstrap_servers, topic, identity, driver.transaction_version) as task:
                task.send({partition: [batch(b"%d" % number)]})
                task.flush()
            before = driver.end(commit=number != 1)
        assert driver.await_end().epoch > before.epoch
    assert read(log, topic) == [b"0", b"2"]


def test_tasks_of_a_fenced_driver_write_nothing(log, topic, protocol):
    partition = TopicPartition(topic, 0)
    with SharedProducer(log.bootstrap_servers, topic) as old, SharedProducer(log.bootstrap_servers, topic) as new:
        identity = old.init()
        old.add_partitions([partition])
        new.init()
        with (
            BatchSender(log.bootstrap_servers, topic, identity, old.transaction_version) as task,
            pytest.raises((TransactionFailed, ProducerFenced)),
        ):
            send_and_wait(task, partition)
        with pytest.raises(ProducerFenced):
            old.end(commit=True)
    assert read(log, topic, IsolationLevel.READ_UNCOMMITTED) == []


@pytest.mark.parametrize("place", ["before the request", "after the request", "before the answer"])
def test_commit_survives_a_cut_connection(log, topic, protocol, place):
    with Proxy(log.bootstrap_servers) as proxy, Producer(proxy.bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"value", partition=0).result()
        if place == "before the request":
            proxy.at_request(ApiKey.END_TXN, then=Then.CUT)
        elif place == "after the request":
            proxy.at_request(ApiKey.END_TXN, then=Then.FORWARD_AND_CUT)
        else:
            proxy.at_answer(ApiKey.END_TXN, then=Then.CUT)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(topic, b"next", partition=0)
        producer.commit_transaction()
    assert read(log, topic) == [b"value", b"next"]


@pytest.mark.drawn(6)
def test_commit_whose_answer_never_comes_is_unknown(log, topic):
    have_coordinator(log, topic)
    with (
        Proxy(log.bootstrap_servers) as proxy,
        Producer(proxy.bootstrap_servers, transactional_id=topic, call_timeout_ms=5000) as producer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"value", partition=0).result()
        for nth in range(1, 100):
            proxy.at_answer(ApiKey.END_TXN, nth=nth, then=Then.CUT)
        with pytest.raises(OutcomeUnknown):
            producer.commit_transaction()
        with pytest.raises(OutcomeUnknown):
            producer.begin_transaction()
        with pytest.raises(OutcomeUnknown):
            producer.abort_transaction()
    assert read(log, topic) == [b"value"]


def test_commit_answered_to_a_later_owner_is_unknown_to_the_first(log, topic):
    """EndTxn sent again after a takeover answers PRODUCER_FENCED whether the first one had committed or not."""
    with (
        Proxy(log.bootstrap_servers) as proxy,
        Producer(proxy.bootstrap_servers, transactional_id=topic) as first,
        Producer(log.bootstrap_servers, transactional_id=topic) as second,
    ):
        first.init_transactions()
        first.begin_transaction()
        first.send(topic, b"value", partition=0).result()
        proxy.at_answer(ApiKey.END_TXN, then=Then.CUT, call=second.init_transactions)
        with pytest.raises(OutcomeUnknown):
            first.commit_transaction()
    assert read(log, topic) == [b"value"]


def test_produce_cut_at_every_point_writes_each_record_once(log, topic):
    with Proxy(log.bootstrap_servers) as proxy, Producer(proxy.bootstrap_servers, linger_ms=0) as producer:
        for nth, then in ((2, Then.CUT), (5, Then.FORWARD_AND_CUT)):
            proxy.at_request(ApiKey.PRODUCE, nth=nth, then=then)
        proxy.at_answer(ApiKey.PRODUCE, nth=8, then=Then.CUT)
        for number in range(20):
            producer.send(topic, b"%d" % number, partition=0)
            producer.flush()
    assert read(log, topic) == [b"%d" % number for number in range(20)]


def test_transaction_goes_on_after_the_broker_was_killed(new_oncelog, protocol):
    node = new_oncelog()
    with Client(node.bootstrap_servers) as client:
        client.create_topics([NewTopic("orders", 2, 1)])
    with Producer(node.bootstrap_servers, transactional_id="ledger") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"before", partition=0).result()
        node.kill()
        producer.send("orders", b"between", partition=0)
        producer.send("orders", b"elsewhere", partition=1)
        node.start()
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send("orders", b"after", partition=0)
        producer.commit_transaction()
    assert read(node, "orders", partitions=[0]) == [b"before", b"between", b"after"]
    assert read(node, "orders", partitions=[1]) == [b"elsewhere"]


@pytest.mark.drawn(6)
def test_transaction_that_no_broker_takes_has_failed(new_oncelog):
    node = new_oncelog()
    with Client(node.bootstrap_servers) as client:
        client.create_topics([NewTopic("orders", 1, 1)])
    have_coordinator(node, "ledger")
    # For what the broker still takes, too: no busy machine needs so long.
    with Producer(
        node.bootstrap_servers, transactional_id="ledger", call_timeout_ms=10_000, delivery_timeout_ms=10_000
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"written", partition=0).result()
        node.kill()
        producer.send("orders", b"never written", partition=0)
        with pytest.raises(TransactionFailed):
            producer.commit_transaction()


def test_fetcher_reads_the_range_it_is_asked_for(log, topic):
    partition = TopicPartition(topic, 0)
    with Producer(log.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0)
            producer.flush()
    with Fetcher(log.bootstrap_servers, max_wait_ms=50, partition_bytes=200) as fetcher:
        offset, answers = 3, 0
        while offset < 10:
            fetched = fetcher.fetch(partition, offset, end_offset=10)
            assert fetched.next_offset > offset
            offset, answers = fetched.next_offset, answers + 1
        assert answers > 1
        assert (fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset) == (10, 10, 0)
        assert fetcher.fetch(partition, 10).chunks == ()
        with pytest.raises(OffsetOutOfRange):
            fetcher.fetch(partition, 11)
        assert fetcher.fetch(partition, 0).chunks


def test_consumer_shows_markers_on_request_and_goes_on_where_the_log_begins(log, topic):
    partition = TopicPartition(topic, 0)
    with Producer(log.bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        for commit in (True, False):
            producer.begin_transaction()
            producer.send(topic, b"value", partition=0).result()
            producer.commit_transaction() if commit else producer.abort_transaction()
    with Consumer(log.bootstrap_servers, include_control=True, auto_offset_reset="earliest") as consumer:
        consumer.assign({partition: 1_000_000})
        seen = []
        while consumer.position(partition) != 4:
            seen += [(record.offset, record.control) for record in consumer.poll()]
        assert seen == [(0, None), (1, ControlType.COMMIT), (3, ControlType.ABORT)]
        consumer.seek(partition, 1)
        assert [record.offset for record in consumer.poll(records_max=1)] == [1]
        assert consumer.position(partition) == 2
    with Consumer(log.bootstrap_servers, auto_offset_reset="none") as consumer:
        consumer.assign({partition: 1_000_000})
        with pytest.raises(OffsetOutOfRange):
            consumer.poll(5_000)


def is_open(log, transactional_id) -> bool:
    with Client(log.bootstrap_servers) as client:
        return client.describe_transactions([transactional_id])[transactional_id].state == "Ongoing"


def test_transaction_that_is_open_when_its_producer_is_closed_is_aborted(log, topic, face, protocol):
    """As Java's producer does: what is left is written, and nobody waits for the timeout."""
    producer = face.producer(log.bootstrap_servers, transactional_id=topic, linger_ms=60_000)
    producer.init_transactions()
    producer.begin_transaction()
    left = producer.send(topic, b"left", partition=0)
    producer.send_offsets_to_transaction({TopicPartition(topic, 1): OffsetAndMetadata(7)}, topic)
    assert is_open(log, topic)
    producer.close()
    assert left.result().offset == 0
    assert not is_open(log, topic)
    assert (read(log, topic), read(log, topic, IsolationLevel.READ_UNCOMMITTED)) == ([], [b"left"])
    assert committed(log, topic) == {}
    producer.close()


def test_transaction_that_has_failed_is_aborted_when_its_producer_is_closed(log, topic, face):
    with face.producer(log.bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"good", partition=0).result()
        producer.send(topic, bytes(2_000_000), partition=1)
        with pytest.raises(TransactionFailed, match="MESSAGE_TOO_LARGE"):
            producer.commit_transaction()
        assert is_open(log, topic)
    assert not is_open(log, topic)


class OurMistakeError(Exception):
    """What is raised in the midst of a transaction."""


@pytest.mark.parametrize("is_asyncio", [False, True])
def test_error_inside_a_transaction_is_raised_as_it_is_and_the_transaction_is_aborted(log, topic, is_asyncio):
    def run() -> None:
        with Producer(log.bootstrap_servers, transactional_id=topic) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"value", partition=0).result()
            raise OurMistakeError

    async def run_asyncio() -> None:
        async with AsyncProducer(log.bootstrap_servers, transactional_id=topic) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await (await producer.send(topic, b"value", partition=0))
            raise OurMistakeError

    with pytest.raises(OurMistakeError):
        asyncio.run(run_asyncio()) if is_asyncio else run()
    assert not is_open(log, topic)


@pytest.mark.parametrize("is_asyncio", [False, True])
def test_error_of_a_producer_that_cannot_abort_when_it_is_closed_is_raised_as_it_is(new_oncelog, caplog, is_asyncio):
    """Where nobody answers, the calls have a limit as ever. Of a transaction without records nobody is asked."""
    node = new_oncelog()
    limits = {"call_timeout_ms": 5_000, "delivery_timeout_ms": 5_000}

    def run() -> None:
        with (
            Producer(node.bootstrap_servers, transactional_id="empty", **limits) as empty,
            Producer(node.bootstrap_servers, transactional_id="open", **limits) as producer,
        ):
            for one in (empty, producer):
                one.init_transactions()
                one.begin_transaction()
            producer.send("t", b"value", partition=0).result()
            node.kill()
            raise OurMistakeError

    async def run_asyncio() -> None:
        async with (
            AsyncProducer(node.bootstrap_servers, transactional_id="empty", **limits) as empty,
            AsyncProducer(node.bootstrap_servers, transactional_id="open", **limits) as producer,
        ):
            for one in (empty, producer):
                await one.init_transactions()
                await one.begin_transaction()
            await (await producer.send("t", b"value", partition=0))
            node.kill()
            raise OurMistakeError

    with pytest.raises(OurMistakeError):
        asyncio.run(run_asyncio()) if is_asyncio else run()
    (said,) = (record.getMessage() for record in caplog.records if record.name == "oncelog.client")
    assert said.startswith("an open transaction is left to its timeout")


def test_asyncio_transactions_are_read_by_an_asyncio_consumer(log, topic):
    async def run() -> list[bytes | None]:
        async with AsyncProducer(log.bootstrap_servers, transactional_id=topic, compression="zstd") as producer:
            await producer.init_transactions()
            for number in range(4):
                await producer.begin_transaction()
                sent = await producer.send(topic, b"%d" % number, partition=0)
                await sent.result()
                await (producer.abort_transaction() if number % 2 else producer.commit_transaction())
        async with AsyncConsumer(log.bootstrap_servers) as consumer:
            partition = TopicPartition(topic, 0)
            await consumer.assign({partition: OffsetSpec.EARLIEST})
            values: list[bytes | None] = []
            while consumer.position(partition) < 8:
                values += [record.value for record in await consumer.poll()]
            return values

    assert asyncio.run(run()) == [b"0", b"2"]


def test_asyncio_producer_is_fenced_by_a_second(log, topic):
    async def run() -> None:
        async with (
            AsyncProducer(log.bootstrap_servers, transactional_id=topic) as first,
            AsyncProducer(log.bootstrap_servers, transactional_id=topic) as second,
        ):
            await first.init_transactions()
            await first.begin_transaction()
            await first.send(topic, b"zombie")
            await first.flush()
            await second.init_transactions()
            with pytest.raises(ProducerFenced):
                await first.commit_transaction()

    asyncio.run(run())


@pytest.mark.drawn(6)
@pytest.mark.slow
@pytest.mark.one_broker
def test_transaction_that_timed_out_is_aborted_and_tried_again(log, topic):
    """TV2 tells a timeout from fencing: EndTxn v5(abort) with the own epoch answers NONE with the next epoch."""
    partition = TopicPartition(topic, 0)
    with (
        SharedProducer(log.bootstrap_servers, topic, timeout_ms=100) as driver,
        Client(log.bootstrap_servers) as client,
    ):
        identity = driver.init()
        driver.add_partitions([partition])
        with BatchSender(log.bootstrap_servers, topic, identity, driver.transaction_version) as task:
            task.send({partition: [batch(b"too late")]})
            task.flush()
        while client.describe_transactions([topic])[topic].state != "CompleteAbort":
            client.metadata([topic])
        with pytest.raises(TransactionFailed):
            driver.commit_offsets(topic, {partition: OffsetAndMetadata(1)})
        with pytest.raises(TransactionFailed):
            driver.end(commit=True)
        renewed = driver.end(commit=False)
        assert renewed.epoch > identity.epoch
        driver.add_partitions([partition])
        with BatchSender(log.bootstrap_servers, topic, renewed, driver.transaction_version) as task:
            task.send({partition: [batch(b"in time")]})
            task.flush()
        driver.end(commit=True)
    assert read(log, topic) == [b"in time"]
