"""A record that is not written is told to somebody: by its delivery, a callback, `flush`, or at last by `close`."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from oncelog.client import BrokerRefused, DeliveryFailed, Producer
from oncelog.testing import broker

TOO_LARGE = b"x" * 2_000_000


@pytest.fixture(scope="module")
def node():
    with broker(num_partitions=1) as node:
        yield node


def test_close_raises_what_nobody_was_told(node, face):
    producer = face.producer(node.bootstrap_servers)
    producer.send("refused", b"written")
    producer.send("refused", TOO_LARGE)
    with pytest.raises(BrokerRefused, match="MESSAGE_TOO_LARGE"):
        producer.close()
    producer.close()


def test_close_raises_the_second_failure_where_only_the_first_was_told(node, face):
    producer = face.producer(node.bootstrap_servers)
    with pytest.raises(BrokerRefused):
        producer.send("refused", TOO_LARGE).result()
    producer.send("refused", TOO_LARGE)
    with pytest.raises(BrokerRefused, match="MESSAGE_TOO_LARGE"):
        producer.close()


@pytest.mark.parametrize("answered_by", ["delivery", "callback", "flush"])
def test_close_says_nothing_again(node, face, answered_by):
    told = []
    producer = face.producer(node.bootstrap_servers)
    delivery = producer.send("refused", TOO_LARGE, on_delivery=lambda *outcome: told.append(outcome))
    if answered_by == "delivery":
        with pytest.raises(BrokerRefused):
            delivery.result()
    elif answered_by == "flush":
        with pytest.raises(BrokerRefused):
            producer.flush()
    producer.close()
    assert [type(error) for _, error in told] == [BrokerRefused]


def test_exception_in_the_block_comes_out_of_it_with_a_note_of_what_was_not_written(node):
    def fail() -> None:
        with Producer(node.bootstrap_servers) as producer:
            producer.send("refused", TOO_LARGE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        fail()
    (note,) = raised.value.__notes__
    assert note.startswith("closing the producer: ")
    assert "MESSAGE_TOO_LARGE" in note


def test_close_says_that_no_broker_has_taken_a_record(face):
    with broker(num_partitions=1) as node:
        producer = face.producer(node.bootstrap_servers, delivery_timeout_ms=500)
        producer.send("gone", b"first").result()
    producer.send("gone", b"second")
    with pytest.raises(DeliveryFailed, match="took no batch in 500 ms"):
        producer.close()


def ended(program: str, node) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), node.bootstrap_servers],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


def test_program_that_ends_with_an_open_producer_says_what_it_had_not_written(node):
    program = """
        import os, sys
        from oncelog.client import Producer

        written, open_one = Producer(sys.argv[1]), Producer(sys.argv[1], linger_ms=60_000)
        written.send("left", b"written").result()
        open_one.send("left", b"one")
        open_one.send("left", b"two")
        if os.fork() == 0:
            sys.exit()
        os.wait()
        """
    (said,) = ended(program, node).stderr.splitlines()
    assert said == (
        "the program has ended without closing a producer, and 2 records that it had not written may be lost"
    )


def test_event_loop_that_ends_with_an_open_producer_says_so(node):
    program = """
        import asyncio, sys
        from oncelog.client import AsyncProducer

        async def leave(linger_ms):
            producer = AsyncProducer(sys.argv[1], linger_ms=linger_ms)
            delivery = await producer.send("left", b"value")
            if not linger_ms:
                await delivery

        asyncio.run(leave(0))
        asyncio.run(leave(60_000))
        """
    (said,) = ended(program, node).stderr.splitlines()
    assert said == (
        "the task in which an asyncio producer sends was cancelled before the producer was closed, "
        "and 1 record that it had not written may be lost"
    )


def test_program_that_closes_its_producers_says_nothing(node):
    program = """
        import sys
        from oncelog.client import Consumer, Producer

        with Producer(sys.argv[1]) as producer:
            producer.send("left", b"value")
        consumer = Consumer(sys.argv[1], group_id="left open")
        consumer.subscribe(["left"])
        consumer.poll()
        """
    assert ended(program, node).stderr == ""
