"""A process that was forked has copies of what its parent holds open: it is told so, and does the parent no harm."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable

import pytest

from harness.names import unique
from oncelog.client import Client, Consumer, IllegalState, Producer, TopicPartition
from oncelog.testing import broker

CHILD_SECONDS = 20


@pytest.fixture(scope="module")
def node():
    with broker(num_partitions=1) as node:
        yield node


def forked(work: Callable[[], object]) -> None:
    """Do it in a process that is forked here, as gunicorn and multiprocessing fork."""
    process_id = os.fork()
    if process_id == 0:
        signal.alarm(CHILD_SECONDS)
        try:
            work()
        except BaseException:  # noqa: BLE001 - the exit status says it
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(process_id, 0)[1] == 0


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(IllegalState, match="a process makes clients of its own"):
        call()


def test_producer_says_in_a_forked_process_that_it_is_another_ones(node):
    with Producer(node.bootstrap_servers, transactional_id=unique("forked")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        delivery = producer.send("forked", b"value", partition=0)
        for call in (
            lambda: producer.send("forked", b"value"),
            lambda: producer.send(unique("new"), b"value"),
            delivery.result,
            producer.flush,
            producer.commit_transaction,
            producer.abort_transaction,
        ):
            forked(lambda call=call: refused(call))
        producer.commit_transaction()


def test_consumer_and_client_say_so(node):
    with Producer(node.bootstrap_servers) as producer:
        producer.send("read", b"value").result()
    with (
        Client(node.bootstrap_servers) as client,
        Consumer(node.bootstrap_servers, group_id=unique("forked")) as consumer,
    ):
        client.metadata()
        consumer.subscribe(["read"])
        while not consumer.poll():
            pass
        for call in (consumer.poll, consumer.commit, consumer.group_metadata, client.metadata):
            forked(lambda call=call: refused(call))
        consumer.commit()


def test_lock_that_a_thread_held_at_the_fork_is_not_waited_for(node):
    with Producer(node.bootstrap_servers) as producer, Consumer(node.bootstrap_servers) as consumer:
        producer.send("held", b"value").result()
        consumer.assign({TopicPartition("held", 0): 1})
        polling = threading.Thread(target=consumer.poll, args=(1000,))
        polling.start()
        forked(lambda: refused(consumer.poll))
        forked(consumer.close)
        polling.join()


def test_what_a_forked_process_closes_stays_open_where_it_came_from(node):
    topic, group = unique("closed"), unique("closed")
    producer = Producer(node.bootstrap_servers, transactional_id=group, call_timeout_ms=5000)
    consumer = Consumer(node.bootstrap_servers, group_id=group, call_timeout_ms=5000)
    client = Client(node.bootstrap_servers)
    client.metadata()
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"one")
    producer.commit_transaction()
    consumer.subscribe([topic])
    while not consumer.poll():
        pass
    membership = consumer.group_metadata()

    producer.begin_transaction()
    producer.send(topic, b"two")
    for resource in (producer, consumer, client):
        forked(resource.close)
    producer.commit_transaction()
    assert [record.value for record in consumer.poll(10_000)] == [b"two"]
    consumer.commit()
    assert consumer.group_metadata() == membership
    assert client.metadata([topic])[topic].partitions
    for resource in (producer, consumer, client):
        resource.close()
