"""What a user can do wrong is an exception with a sentence, with `python -O` and without."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap

import pytest

from harness.names import unique
from oncelog.client import (
    AsyncProducer,
    BatchSender,
    ClientError,
    Fetcher,
    IllegalState,
    NewTopic,
    OffsetAndMetadata,
    OffsetSpec,
    Producer,
    ProducerIdentity,
    SharedProducer,
    TopicPartition,
    TransactionVersion,
)
from oncelog.client.producer.accumulator import ProducerBatch
from oncelog.testing import broker
from oncelog.testing.proxy import ApiKey, Proxy, Then
from tests.client.faces import faces


@pytest.fixture(scope="module")
def node():
    with broker() as node:
        yield node


@pytest.fixture(params=["blocking", "asyncio"])
def face(request):
    with faces(request.param) as face:
        yield face


HERE = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("misuse", "sentence"),
    [
        (lambda producer: producer.begin_transaction(), "made without a transactional_id"),
        (lambda producer: producer.abort_transaction(), "made without a transactional_id"),
        (lambda producer: producer.commit_transaction(), "made without a transactional_id"),
        (lambda producer: producer.init_transactions(), "made without a transactional_id"),
    ],
)
def test_producer_without_an_id_has_no_transactions(node, face, misuse, sentence):
    with face.producer(node.bootstrap_servers) as producer, pytest.raises(IllegalState, match=sentence):
        misuse(producer)


def test_transaction_is_begun_and_ended_in_order(node, face):
    with face.producer(node.bootstrap_servers, transactional_id=unique("misuse")) as producer:
        with pytest.raises(IllegalState, match="uninitialized"):
            producer.begin_transaction()
        producer.init_transactions()
        with pytest.raises(IllegalState, match="called once"):
            producer.init_transactions()
        for early in (
            producer.commit_transaction,
            producer.abort_transaction,
            lambda: producer.send("t", b"value"),
            lambda: producer.send_offsets_to_transaction({}, "group"),
        ):
            with pytest.raises(IllegalState, match="no transaction is open: the producer is ready"):
                early()
        producer.begin_transaction()
        with pytest.raises(IllegalState, match="no transaction begins while the producer is in transaction"):
            producer.begin_transaction()
        producer.send("t", b"value")
        producer.commit_transaction()
        with pytest.raises(IllegalState, match="no transaction is open"):
            producer.abort_transaction()
        producer.begin_transaction()
        producer.abort_transaction()


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": "text"},
        {"value": ["list"]},
        {"value": b"value", "key": "text"},
        {"value": b"value", "headers": [("name", "text")]},
        {"value": b"value", "headers": [(b"name", b"data")]},
        {"value": b"value", "timestamp_ms": 1.5},
        {"value": b"value", "timestamp_ms": 2**80},
    ],
    ids=str,
)
def test_record_that_cannot_be_written_is_refused_at_once_and_takes_none_with_it(node, face, wrong):
    topic = unique("refused")
    with face.producer(node.bootstrap_servers, transactional_id=unique("misuse")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        before = producer.send(topic, b"before")
        with pytest.raises((TypeError, ValueError)):
            producer.send(topic, **wrong)
        after = producer.send(topic, b"after")
        producer.commit_transaction()
        assert [before.result().offset, after.result().offset] == [0, 1]


def test_producer_that_has_failed_says_so_at_every_call_and_commits_nothing(node, face, monkeypatch):
    """What has ended the sending is a bug. Half of a transaction is never committed for it."""
    topic, transactional_id = unique("failed"), unique("misuse")
    producer = face.producer(node.bootstrap_servers, transactional_id=transactional_id)
    producer.init_transactions()
    producer.begin_transaction()
    written = producer.send(topic, b"debit")
    producer.flush()
    with monkeypatch.context() as patched:
        patched.setattr(ProducerBatch, "encode", lambda *_: 1 / 0)
        lost = producer.send(topic, b"credit")
        with pytest.raises(IllegalState, match="ZeroDivisionError"):
            producer.flush()
    assert written.result().offset == 0
    for call in (
        lost.result,
        producer.flush,
        producer.commit_transaction,
        producer.abort_transaction,
        producer.begin_transaction,
        lambda: producer.send(topic, b"more"),
        producer.close,
    ):
        with pytest.raises(IllegalState, match="what it had not written is lost: ZeroDivisionError"):
            call()
    with face.client(node.bootstrap_servers) as client:
        assert client.describe_transactions([transactional_id])[transactional_id].state == "Ongoing"


def test_producer_whose_task_was_cancelled_says_so(node):
    async def cancel_it() -> None:
        producer = AsyncProducer(node.bootstrap_servers, linger_ms=60_000)
        await producer.send(unique("cancelled"), b"value")
        await asyncio.sleep(0)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        for call in (producer.flush, producer.close):
            with pytest.raises(IllegalState, match="was cancelled, and what it had not written is lost"):
                await call()

    asyncio.run(cancel_it())


def test_consumer_does_what_it_was_made_for(node, face):
    with face.consumer(node.bootstrap_servers) as consumer:
        for grouped in (
            lambda: consumer.subscribe(["t"]),
            consumer.unsubscribe,
            consumer.commit,
            consumer.committed,
            consumer.seek_to_committed,
            consumer.group_metadata,
        ):
            with pytest.raises(IllegalState, match="made without a group_id"):
                grouped()
        for elsewhere in (
            lambda: consumer.seek(HERE, 0),
            lambda: consumer.position(HERE),
            lambda: consumer.pause([HERE]),
            lambda: consumer.seek_to_end([HERE]),
        ):
            with pytest.raises(IllegalState, match="t-0 is not assigned to this consumer"):
                elsewhere()


def test_times_are_not_negative(node, face):
    with face.consumer(node.bootstrap_servers) as consumer, face.producer(node.bootstrap_servers) as producer:
        producer.send("times", b"value").result()
        partition = TopicPartition("times", 0)
        consumer.assign({partition: 0})
        with pytest.raises(ValueError, match="times-0 is -5"):
            consumer.seek_to_times({partition: -5})


def test_consumer_goes_to_offsets_and_specs_alone_and_stays_where_it_is(node, face):
    """Java: IllegalArgumentException("seek offset must not be a negative number")."""
    with face.consumer(node.bootstrap_servers) as consumer, face.producer(node.bootstrap_servers) as producer:
        producer.send("places", b"value").result()
        partition = TopicPartition("places", 0)
        consumer.assign({partition: 1})
        with pytest.raises(
            ValueError, match="the offset for places-0 is -7: it is to be an OffsetSpec, or not below 0"
        ):
            consumer.seek(partition, -7)
        with pytest.raises(ValueError, match="the offset for t-0 is -4"):
            consumer.assign({HERE: -4})
        assert consumer.position(partition) == 1
        consumer.seek(partition, OffsetSpec.EARLIEST)
        assert consumer.position(partition) == 0


def test_no_negative_offset_is_committed(node, face):
    """Java: IllegalArgumentException("Invalid negative offset"). Brokers take any, and readers find no offset there."""
    group = unique("negative")
    partition = TopicPartition(group, 0)
    before, negative = {partition: OffsetAndMetadata(3)}, {partition: OffsetAndMetadata(-3)}
    sentence = f"the offset to commit for {partition} is -3: it is not to be below 0"
    with (
        face.client(node.bootstrap_servers) as client,
        face.consumer(node.bootstrap_servers, group_id=group) as consumer,
        face.producer(node.bootstrap_servers, transactional_id=unique("negative")) as producer,
    ):
        client.create_topics([NewTopic(partition.topic)])
        client.commit_offsets(group, before)
        for commit in (lambda: client.commit_offsets(group, negative), lambda: consumer.commit(negative)):
            with pytest.raises(ValueError, match=sentence):
                commit()
        assert client.committed_offsets(group) == before
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(ValueError, match=sentence):
            producer.send_offsets_to_transaction(negative, group)
        # The transaction is as it was.
        producer.send_offsets_to_transaction({partition: OffsetAndMetadata(4)}, group)
        producer.commit_transaction()
        assert client.committed_offsets(group) == {partition: OffsetAndMetadata(4)}


def test_at_least_one_record_is_asked_for(node, face):
    with face.consumer(node.bootstrap_servers) as consumer, pytest.raises(ValueError, match="records_max is 0"):
        consumer.poll(records_max=0)


def test_name_of_one_topic_is_not_taken_for_a_topic_per_letter(node, face):
    with (
        face.consumer(node.bootstrap_servers, group_id=unique("misuse")) as consumer,
        pytest.raises(TypeError, match=r"\['orders'\], where it is one"),
    ):
        consumer.subscribe("orders")


def test_subscriber_is_told_what_to_read_by_its_group_alone(node, face):
    with face.producer(node.bootstrap_servers) as producer:
        producer.send("subscribed", b"value").result()
    with face.consumer(node.bootstrap_servers, group_id=unique("misuse")) as consumer:
        with pytest.raises(ValueError, match="at least one topic"):
            consumer.subscribe([])
        consumer.subscribe(["subscribed"])
        with pytest.raises(IllegalState, match="unsubscribe comes first"):
            consumer.assign({HERE: 0})
    with face.consumer(node.bootstrap_servers, group_id=unique("misuse")) as consumer:
        consumer.assign({TopicPartition("subscribed", 0): OffsetSpec.EARLIEST})
        with pytest.raises(IllegalState, match="reads what it was assigned"):
            consumer.subscribe(["subscribed"])


def test_closed_object_says_so(node, face):
    producer = face.producer(node.bootstrap_servers)
    producer.send("closed", b"value").result()
    producer.close()
    for late in (lambda: producer.send("closed", b"value"), lambda: producer.send("new one", b"value")):
        with pytest.raises(IllegalState, match="closed"):
            late()
    producer.close()
    consumer = face.consumer(node.bootstrap_servers)
    consumer.assign({TopicPartition("closed", 0): 0})
    consumer.close()
    with pytest.raises(IllegalState, match="closed"):
        consumer.poll()
    client = face.client(node.bootstrap_servers)
    client.close()
    with pytest.raises(IllegalState, match="closed"):
        client.metadata()
    client.close()


def test_transactional_producer_that_is_closed_says_so(node, face):
    producer = face.producer(node.bootstrap_servers, transactional_id=unique("misuse"))
    producer.init_transactions()
    producer.close()
    with pytest.raises(IllegalState, match="closed"):
        producer.begin_transaction()


def test_parts_of_a_shared_transaction_say_what_is_missing(node):
    with SharedProducer(node.bootstrap_servers, unique("misuse")) as driver:
        with pytest.raises(IllegalState, match="is to be taken first"):
            driver.end(commit=True)
        identity = driver.init()
        with pytest.raises(IllegalState, match="was taken already"):
            driver.init()
    with pytest.raises(ValueError, match="visible at once"):
        BatchSender(node.bootstrap_servers, "id", ProducerIdentity(-1, -1), TransactionVersion.TV2)
    with (
        Fetcher(node.bootstrap_servers) as fetcher,
        pytest.raises(ValueError, match="nothing to fetch of t-0 from offset 5 to 5"),
    ):
        fetcher.fetch(HERE, 5, end_offset=5)
    assert identity.producer_id >= 0


def test_proxy_refuses_rules_that_never_fire(node):
    with Proxy(node.bootstrap_servers) as proxy:
        with pytest.raises(ValueError, match="the first one is number 1"):
            proxy.at_request(ApiKey.PRODUCE, nth=0)
        with pytest.raises(ValueError, match="CUT loses it"):
            proxy.at_answer(ApiKey.PRODUCE, then=Then.FORWARD_AND_CUT)


def test_misuse_is_a_client_error():
    assert issubclass(IllegalState, ClientError)


def test_client_does_the_same_without_asserts(node):
    """`python -O` takes every assert out of the code."""
    program = """
        import sys
        from oncelog.client import *

        assert False, "this process has asserts"
        with Producer(sys.argv[1], transactional_id="optimized") as producer:
            try:
                producer.begin_transaction()
            except IllegalState as error:
                print(error)
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("optimized", b"value", partition=0)
            producer.commit_transaction()
            producer.begin_transaction()
            producer.send("optimized", b"aborted", partition=0)
            producer.abort_transaction()
        with Consumer(sys.argv[1], group_id="optimized") as consumer:
            consumer.subscribe(["optimized"])
            records = []
            while not records:
                records = consumer.poll()
            consumer.commit()
            print(records[0].value, consumer.lag())
    """
    done = subprocess.run(
        [sys.executable, "-O", "-c", textwrap.dedent(program), node.bootstrap_servers],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "no transaction begins while the producer is uninitialized",
        f"b'value' {{{TopicPartition('optimized', 0)!r}: 0}}",
    ]


def test_record_sent_while_its_transaction_is_being_ended_is_an_error(node):
    """A thread that does not wait for the other: the record would be in no transaction."""
    with Producer(node.bootstrap_servers, transactional_id=unique("misuse"), linger_ms=60_000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.flush()
        producer.send("t", b"value")
        with pytest.raises(IllegalState, match="while its transaction was being ended"):
            producer._transport.run(producer._core.commit())
        producer.abort_transaction()
