"""Calls that a signal's handler, a cancelled task or a `close` from elsewhere ends before they are done."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from harness.names import unique
from oncelog.client import (
    AsyncClient,
    AsyncConsumer,
    AsyncProducer,
    Client,
    Consumer,
    IllegalState,
    OffsetAndMetadata,
    OutcomeUnknown,
    Producer,
    TopicPartition,
    TransactionFailed,
)
from oncelog.testing import broker
from oncelog.testing.proxy import ApiKey, Proxy

RECORDS = 10_000
IN_TIME_MS = 5_000


@pytest.fixture(scope="module")
def node():
    with broker(num_partitions=1) as node:
        yield node


class TimeIsUp(Exception):
    """What a handler raises, as Celery's SoftTimeLimitExceeded."""


@pytest.fixture
def alarm():
    armed = [False]

    def ring(*_: object) -> None:
        if armed[0]:
            raise TimeIsUp

    before = signal.signal(signal.SIGALRM, ring)
    yield armed
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def full_topic(node):
    topic = unique("read")
    with Producer(node.bootstrap_servers) as producer:
        for number in range(RECORDS):
            producer.send(topic, b"%d" % number)
    # What reading imports is imported now: Python makes a RuntimeError of what is raised amid that, or leaves a lock behind.
    with Consumer(node.bootstrap_servers, group_id=unique("imports")) as consumer:
        consumer.subscribe([topic])
        while not consumer.poll():
            pass
    return topic


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # where the signal meets a finalizer
@pytest.mark.parametrize("seed", range(12))
def test_consumer_that_a_signal_interrupts_passes_over_nothing(node, full_topic, alarm, seed):
    """While it connects, waits, receives, or takes records out of what it received."""
    moment = random.Random(seed).uniform(0.001, 0.08)
    received: list[int] = []
    with Consumer(node.bootstrap_servers) as consumer:
        consumer.assign({TopicPartition(full_topic, 0): 0})
        signal.setitimer(signal.ITIMER_REAL, moment)
        until = time.monotonic() + IN_TIME_MS / 1000
        while len(received) < RECORDS and time.monotonic() < until:
            records = []
            with suppress(TimeIsUp):
                try:
                    alarm[0] = True
                    records = consumer.poll(records_max=3000)
                finally:
                    alarm[0] = False
            received += [int(record.value or b"") for record in records]
    assert received == list(range(RECORDS))


def test_records_whose_decoding_is_interrupted_are_handed_out_by_the_next_poll(node, full_topic, monkeypatch):
    """As KeyboardInterrupt, in the middle of a batch."""
    import oncelog.client.consumer.core as core

    decode = core.decode_batch

    def interrupted(*arguments: Any) -> Any:
        for number, record in enumerate(decode(*arguments)):
            if number == 100:
                raise KeyboardInterrupt
            yield record

    with Consumer(node.bootstrap_servers) as consumer:
        consumer.assign({TopicPartition(full_topic, 0): 0})
        with monkeypatch.context() as patched:
            patched.setattr(core, "decode_batch", interrupted)
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(IN_TIME_MS)
        assert consumer.position(TopicPartition(full_topic, 0)) == 0
        assert consumer.poll(IN_TIME_MS)[0].offset == 0


class Held:
    """A proxy that keeps the first answer to a request back, and does something when it is there."""

    def __init__(self, node: Any, request: ApiKey, then: Callable[[], object]) -> None:
        self._proxy = Proxy(node.bootstrap_servers)
        self._released = threading.Event()
        self._proxy.at_answer(request, call=lambda: (then(), self._released.wait(1)))

    def __enter__(self) -> str:
        return self._proxy.bootstrap_servers

    def __exit__(self, *_: object) -> None:
        self._released.set()
        self._proxy.close()


def ring() -> None:
    os.kill(os.getpid(), signal.SIGALRM)


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_end_of_a_transaction_that_a_signal_interrupts_is_unknown(node, alarm, end):
    with (
        Held(node, ApiKey.END_TXN, ring) as bootstrap_servers,
        Producer(bootstrap_servers, transactional_id=unique("interrupted")) as producer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("transferred", b"debit").result()
        alarm[0] = True
        with pytest.raises(TimeIsUp):
            getattr(producer, end)()
        alarm[0] = False
        for call in (producer.abort_transaction, producer.commit_transaction, producer.begin_transaction):
            with pytest.raises(OutcomeUnknown, match="was interrupted before it was answered"):
                call()


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_end_of_a_transaction_that_is_cancelled_is_unknown(node, end):
    async def cancel_it() -> None:
        loop = asyncio.get_running_loop()
        with Held(node, ApiKey.END_TXN, lambda: loop.call_soon_threadsafe(ending.cancel)) as bootstrap_servers:
            async with AsyncProducer(bootstrap_servers, transactional_id=unique("cancelled")) as producer:
                await producer.init_transactions()
                await producer.begin_transaction()
                await (await producer.send("transferred", b"debit"))
                ending = asyncio.create_task(getattr(producer, end)())
                with pytest.raises(asyncio.CancelledError):
                    await ending
                for call in (producer.abort_transaction, producer.commit_transaction, producer.begin_transaction):
                    with pytest.raises(OutcomeUnknown, match="was interrupted before it was answered"):
                        await call()

    asyncio.run(cancel_it())


def test_transaction_whose_offsets_were_cancelled_is_not_committed_without_them(node, full_topic):
    topic, offsets = unique("transferred"), {TopicPartition(full_topic, 0): OffsetAndMetadata(5)}

    async def cancel_it() -> None:
        loop = asyncio.get_running_loop()
        with Held(
            node, ApiKey.TXN_OFFSET_COMMIT, lambda: loop.call_soon_threadsafe(sending.cancel)
        ) as bootstrap_servers:
            async with AsyncProducer(bootstrap_servers, transactional_id=topic) as producer:
                await producer.init_transactions()
                await producer.begin_transaction()
                await producer.send(topic, b"once")
                sending = asyncio.create_task(producer.send_offsets_to_transaction(offsets, topic))
                with pytest.raises(asyncio.CancelledError):
                    await sending
                with pytest.raises(TransactionFailed, match="sending offsets to the transaction was interrupted"):
                    await producer.commit_transaction()
                await producer.abort_transaction()
                await producer.begin_transaction()
                await producer.send(topic, b"again")
                await producer.send_offsets_to_transaction(offsets, topic)
                await producer.commit_transaction()

    asyncio.run(cancel_it())
    with Consumer(node.bootstrap_servers) as consumer:
        consumer.assign({TopicPartition(topic, 0): 0})
        assert [record.value for record in consumer.poll(IN_TIME_MS)] == [b"again"]


def test_offsets_that_a_task_sends_while_another_commits_are_part_of_the_transaction(node, full_topic):
    """As with threads, which wait for each other."""
    topic, offsets = unique("transferred"), {TopicPartition(full_topic, 0): OffsetAndMetadata(5)}

    async def both() -> None:
        async with AsyncProducer(node.bootstrap_servers, transactional_id=topic) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(topic, b"once")
            await asyncio.gather(producer.send_offsets_to_transaction(offsets, topic), producer.commit_transaction())
            await producer.begin_transaction()
            await producer.abort_transaction()

    asyncio.run(both())
    with Client(node.bootstrap_servers) as client:
        assert client.committed_offsets(topic) == offsets


def test_close_of_a_producer_that_is_cancelled_loses_nothing(node):
    async def cancel_it() -> None:
        producer = AsyncProducer(node.bootstrap_servers, linger_ms=60_000)
        delivery = await producer.send("kept", b"value")
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert (await delivery).topic == "kept"
        await producer.close()

    asyncio.run(cancel_it())


def test_close_ends_what_other_tasks_wait_for(node, full_topic):
    async def close_it() -> None:
        consumer = AsyncConsumer(node.bootstrap_servers)
        await consumer.assign({TopicPartition(full_topic, 0): RECORDS})
        polling = asyncio.create_task(consumer.poll(60_000))
        await asyncio.sleep(0.2)
        await consumer.close()
        with pytest.raises(IllegalState, match="closed"):
            await asyncio.wait_for(polling, IN_TIME_MS / 1000)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(close_it())


def test_close_ends_what_other_threads_wait_for(node, full_topic):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        consumer, client = Consumer(node.bootstrap_servers), Client(f"127.0.0.1:{silent.getsockname()[1]}")
        consumer.assign({TopicPartition(full_topic, 0): RECORDS})
        for resource, call in ((consumer, lambda: consumer.poll(60_000)), (client, client.metadata)):
            said: list[BaseException] = []
            waiting = threading.Thread(target=note, args=(call, said), daemon=True)
            waiting.start()
            time.sleep(0.3)
            resource.close()
            waiting.join(IN_TIME_MS / 1000)
            assert [str(error) for error in said] == ["this client was closed meanwhile"]


@pytest.mark.parametrize("is_subscribed", [False, True])
def test_close_ends_the_poll_of_another_thread_and_leaves_the_group(node, full_topic, is_subscribed):
    group, revoked = unique("closed-elsewhere"), []

    def on_revoked(partitions):
        # It may use the consumer, whose close has begun.
        consumer.commit()
        revoked.extend(partitions)

    consumer, partition = Consumer(node.bootstrap_servers, group_id=group), TopicPartition(full_topic, 0)
    if is_subscribed:
        consumer.subscribe([full_topic], on_revoked=on_revoked)
        while not consumer.positions() or consumer.position(partition) < RECORDS:
            consumer.poll()
    else:
        consumer.assign({partition: RECORDS})
    said: list[BaseException] = []

    def poll_on() -> None:
        while True:
            consumer.poll(60_000)

    waiting = threading.Thread(target=note, args=(poll_on, said), daemon=True)
    waiting.start()
    time.sleep(0.3)
    began = time.monotonic()
    consumer.close()
    assert time.monotonic() - began < IN_TIME_MS / 1000
    waiting.join(IN_TIME_MS / 1000)
    assert [str(error) for error in said] == ["this client was closed meanwhile"]
    if is_subscribed:
        assert partition in revoked
        with Client(node.bootstrap_servers) as client:
            assert client.committed_offsets(group)[partition].offset == RECORDS
            assert client.describe_group(group).state == "Empty"


def note(call: Callable[[], object], said: list[BaseException]) -> None:
    try:
        call()
    except IllegalState as error:
        said.append(error)


@pytest.mark.parametrize("group", [None, "closed-by-a-signal"])
def test_handler_of_a_signal_may_close_the_consumer_that_polls(node, full_topic, group):
    consumer = Consumer(node.bootstrap_servers, group_id=group)
    if group is None:
        consumer.assign({TopicPartition(full_topic, 0): RECORDS})
    else:
        consumer.subscribe([full_topic])
        while not consumer.poll():
            pass
    before = signal.signal(signal.SIGALRM, lambda *_: consumer.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(IllegalState, match="closed"):
            consumer.poll(60_000)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_object_of_another_event_loop_says_so(node):
    client, producer = AsyncClient(node.bootstrap_servers), AsyncProducer(node.bootstrap_servers)
    assigned = AsyncConsumer(node.bootstrap_servers)
    subscribed = AsyncConsumer(node.bootstrap_servers, group_id=unique("loops"))

    async def use() -> None:
        await client.metadata()
        await (await producer.send("loops", b"value"))
        await assigned.assign({TopicPartition("loops", 0): 0})
        await assigned.poll()
        await subscribed.subscribe(["loops"])

    async def use_elsewhere() -> None:
        for call in (
            client.metadata,
            lambda: producer.send("loops", b"value"),
            producer.flush,
            assigned.poll,
            subscribed.poll,
            lambda: subscribed.subscribe(["loops"]),
            subscribed.close,
        ):
            with pytest.raises(IllegalState, match="for the event loop that used it first, which is closed"):
                await call()
        for resource in (client, producer, assigned, subscribed):
            await resource.close()

    asyncio.run(use())
    asyncio.run(use_elsewhere())
