"""The client against brokers that say anything, or nothing: an error of its own in the time allowed, or what was asked."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
import traceback
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from harness.hostile_broker import LENGTH, HostileBroker
from harness.names import unique
from harness.rewriting_proxy import RewritingProxy
from oncelog.client import (
    Client,
    ClientError,
    CorruptRecords,
    NewTopic,
    OffsetSpec,
    Producer,
    RetriesExhausted,
    TopicPartition,
    TransactionFailed,
)
from oncelog.records import Record, build_batch
from oncelog.testing import broker
from oncelog.testing.proxy import ApiKey
from tests.client.faces import faces

pytestmark = pytest.mark.drawn(3)

TOPIC = "t"
CALL_MS, REQUEST_MS = 500, 150
LIMITS = {"call_timeout_ms": CALL_MS, "request_timeout_ms": REQUEST_MS}
AT_MOST_S = 30
"""Many times what the calls below may take, on a machine that does other things too."""


@pytest.fixture(scope="module")
def node():
    with broker() as node:
        with Producer(node.bootstrap_servers) as producer:
            for number in range(50):
                producer.send(TOPIC, b"v%d" % number, partition=0)
        yield node


@pytest.fixture(params=["blocking", "asyncio"])
def face(request):
    with faces(request.param) as face:
        yield face


def flip(chance, frame):
    data = bytearray(frame)
    for _ in range(chance.randint(1, 4)):
        data[chance.randrange(8, len(data))] = chance.choice([0, 255, 127, 128, chance.randrange(256)])
    return bytes(data), False


SPOILT = {
    "cut at any byte": lambda chance, frame: (frame[: chance.randrange(len(frame))], True),
    "another correlation id": lambda _, frame: (frame[:4] + struct.pack(">i", 4711) + frame[8:], False),
    "as long as can be": lambda _, frame: (LENGTH.pack(2**31 - 1) + frame[4:], False),
    "of negative length": lambda _, frame: (LENGTH.pack(-5) + frame[4:], False),
    "of no length": lambda _, frame: (LENGTH.pack(0), False),
    "garbage": lambda chance, frame: (frame[:8] + chance.randbytes(len(frame) - 8), False),
    "noise": lambda chance, _: (chance.randbytes(50), False),
    "bytes flipped": flip,
    "none": lambda _chance, _frame: (b"", False),
    "a header alone": lambda _, frame: (LENGTH.pack(4) + frame[4:8], False),
    "given twice": lambda _, frame: (frame + frame, False),
}


def ask(face, servers):
    with face.client(servers, **LIMITS) as client:
        client.metadata()
        client.end_offsets([TopicPartition(TOPIC, 0)])
        client.committed_offsets("group")


def administrate(face, servers):
    with face.client(servers, **LIMITS) as client:
        client.create_topics([NewTopic(unique("hostile"), 1, 1)])
        client.list_groups()


def produce(face, servers):
    with face.producer(servers, delivery_timeout_ms=CALL_MS, **LIMITS) as producer:
        producer.send(TOPIC, b"x", partition=0)
        producer.flush()


def transact(face, servers):
    with face.producer(servers, delivery_timeout_ms=CALL_MS, transactional_id=unique("hostile"), **LIMITS) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(TOPIC, b"x", partition=0)
        try:
            producer.commit_transaction()
        except TransactionFailed:
            producer.abort_transaction()


def consume(face, servers):
    with face.consumer(servers, **LIMITS) as consumer:
        consumer.assign({TopicPartition(TOPIC, 0): OffsetSpec.EARLIEST})
        for _ in range(3):
            consumer.poll(200)


def subscribe(protocol):
    def read(face, servers):
        with face.consumer(servers, group_id=unique("hostile"), group_protocol=protocol, **LIMITS) as consumer:
            consumer.subscribe([TOPIC])
            for _ in range(4):
                consumer.poll(200)
            consumer.commit()

    return read


WORK = {
    "ask": ask,
    "administrate": administrate,
    "produce": produce,
    "transact": transact,
    "consume": consume,
    "classic": subscribe("classic"),
    "consumer": subscribe("consumer"),
}


@contextmanager
def no_thread_dies():
    died = []
    before, threading.excepthook = (
        threading.excepthook,
        lambda one: (traceback.print_exception(one.exc_value), died.append(one)),
    )
    try:
        yield
    finally:
        threading.excepthook = before
    assert [(one.exc_type, one.exc_value) for one in died] == []


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("spoilt", SPOILT)
def test_answer_that_is_none_is_an_error_of_the_client_or_is_asked_for_again(node, face, work, spoilt):
    chance = random.Random(f"{work} {spoilt} {face.name}")
    first, is_for_good = chance.randint(1, 9), chance.random() < 0.3

    def spoil(frame, number):
        is_chosen = number >= first if is_for_good else number == first
        return SPOILT[spoilt](chance, frame) if is_chosen else (frame, False)

    began_s = time.monotonic()
    with no_thread_dies(), HostileBroker(node.bootstrap_servers, spoil) as hostile, suppress(ClientError):
        WORK[work](face, hostile.bootstrap_servers)
    assert time.monotonic() - began_s < AT_MOST_S


@pytest.mark.parametrize("work", WORK)
def test_broker_that_never_says_anything_is_given_up_in_time(face, work):
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        began_s = time.monotonic()
        with suppress(RetriesExhausted):
            WORK[work](face, f"127.0.0.1:{silent.getsockname()[1]}")
        assert time.monotonic() - began_s < AT_MOST_S


@pytest.mark.parametrize("work", WORK)
def test_broker_that_says_its_handshake_byte_by_byte_is_given_up_in_time(face, work):
    """Each byte comes in time, and all of them never do."""

    def drip(side):
        try:
            side.recv(1000)
            for byte in LENGTH.pack(1_000_000) + bytes(1_000_000):
                side.sendall(bytes([byte]))
                time.sleep(0.05)
        except OSError:
            side.close()

    def serve():
        while True:
            try:
                side, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=drip, args=(side,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        began_s = time.monotonic()
        with suppress(ClientError):
            WORK[work](face, f"127.0.0.1:{listening.getsockname()[1]}")
        assert time.monotonic() - began_s < AT_MOST_S
        listening.shutdown(socket.SHUT_RDWR)


def with_leader_elsewhere(message, topic, host, port):
    """The same, with this topic led by a node that lives somewhere else."""
    (first, *_) = message.brokers
    elsewhere = replace(first, node_id=type(first.node_id)(99), host=host, port=type(first.port)(port))
    topics = tuple(
        replace(
            described,
            partitions=tuple(replace(item, leader_id=type(item.leader_id)(99)) for item in described.partitions),
        )
        if described.name == topic
        else described
        for described in message.topics
    )
    return replace(message, brokers=(*message.brokers, elsewhere), topics=topics)


@pytest.fixture
def elsewhere(node):
    name = unique("elsewhere")
    with Client(node.bootstrap_servers) as client:
        client.create_topics([NewTopic(name, 1, 1)])
    return name


@pytest.mark.parametrize(
    "place", [pytest.param("silent", marks=pytest.mark.drawn(8)), "closed", "no host", "no port", "not found"]
)
def test_leader_that_cannot_be_reached_keeps_nobody_from_the_others(node, face, elsewhere, place):
    with (
        socket.create_server(("127.0.0.1", 0), backlog=100) as silent,
        RewritingProxy(node.bootstrap_servers) as proxy,
    ):
        host, port = {
            "silent": ("127.0.0.1", silent.getsockname()[1]),
            "closed": ("127.0.0.1", 1),
            "no host": ("x" * 300, 9092),
            "no port": ("127.0.0.1", 70_000),
            "not found": ("no-such-host.invalid", 9092),
        }[place]
        proxy.changes[ApiKey.METADATA] = lambda message: with_leader_elsewhere(message, elsewhere, host, port)
        with face.producer(proxy.bootstrap_servers, linger_ms=0) as producer:
            waiting = producer.send(elsewhere, b"waits", partition=0)
            for _ in range(3):
                assert producer.send(TOPIC, b"goes", partition=0).result(5_000).offset > 0
            assert not waiting.is_done
            with face.consumer(proxy.bootstrap_servers) as consumer:
                consumer.assign({TopicPartition(elsewhere, 0): 0, TopicPartition(TOPIC, 0): 0})
                assert consumer.poll(5_000)[0].topic == TOPIC
            proxy.give_leaders()
            assert waiting.result(30_000).offset == 0


def test_corrupt_records_are_not_passed_over(node, face, elsewhere):
    """What is whole before them is handed out; then each poll says what is wrong, at the same position."""
    with face.producer(node.bootstrap_servers, linger_ms=0) as producer:
        for number in range(4):
            producer.send(elsewhere, b"value-%d" % number, partition=0).result()

    def spoil(frame, _):
        return frame.replace(b"value-2", b"value-X"), False

    with (
        HostileBroker(node.bootstrap_servers, spoil) as hostile,
        face.consumer(hostile.bootstrap_servers) as consumer,
    ):
        partition = TopicPartition(elsewhere, 0)
        consumer.assign({partition: 0})
        found = []
        while len(found) < 2:
            found += consumer.poll(5_000)
        assert [record.value for record in found] == [b"value-0", b"value-1"]
        for _ in range(3):
            with pytest.raises(CorruptRecords, match=f"reading {elsewhere}-0: the batch at offset 2"):
                consumer.poll(5_000)
            assert consumer.position(partition) == 2
        consumer.seek(partition, 3)
        assert [record.value for record in consumer.poll(5_000)] == [b"value-3"]


def test_batch_header_that_is_none_is_corrupt(node, face, elsewhere):
    with face.producer(node.bootstrap_servers) as producer:
        producer.send(elsewhere, b"value", partition=0).result()
    whole = build_batch([Record(None, b"value")])
    size = struct.pack(">i", len(whole) - 12)

    def spoil(frame, _):
        return (frame.replace(size, struct.pack(">i", -7)) if b"value" in frame else frame), False

    with (
        HostileBroker(node.bootstrap_servers, spoil) as hostile,
        face.consumer(hostile.bootstrap_servers) as consumer,
    ):
        consumer.assign({TopicPartition(elsewhere, 0): 0})
        for _ in range(2):
            with pytest.raises(CorruptRecords, match="says it has"):
                consumer.poll(5_000)
