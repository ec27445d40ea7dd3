"""The asyncio producer: idempotent, or transactional. A task of its own sends what the callers append."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, TypeVar

from oncelog.client.errors import ClientError, IllegalState, RetriesExhausted
from oncelog.client.net.flows import Flow
from oncelog.client.producer.accumulator import Headers, OnDelivery, ProducerBatch, RecordMetadata, given_record
from oncelog.client.producer.core import log_left_open
from oncelog.client.transports.asynchronous.client import AsyncBase
from oncelog.client.transports.asynchronous.transport import monotonic_ms, wall_clock_ms
from oncelog.client.transports.calls.producer import ProducerCalls, say_lost

T = TypeVar("T")
CANCELLED = "the task in which this producer sends was cancelled, and what it had not written is lost"


class AsyncDelivery:
    """One record that was sent, and its result."""

    __slots__ = ("_batch", "_place", "_wait")

    def __init__(
        self, batch: ProducerBatch, place: int, wait: Callable[[Callable[[], bool], float | None], Awaitable[None]]
    ) -> None:
        self._batch = batch
        self._place = place
        self._wait = wait

    @property
    def is_done(self) -> bool:
        return self._batch.is_done

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        """The same as `result`."""
        return self.result().__await__()

    async def result(self, timeout_ms: float | None = None) -> RecordMetadata:
        """Wait until the record is written, for `timeout_ms` at most: after that RetriesExhausted, and the record goes on.

        Raises DeliveryUnknown when it may be written or not. Every other error says that it is not: BrokerRefused,
        DeliveryFailed, or what ended its transaction.
        """
        await self._wait(lambda: self._batch.is_done, timeout_ms)
        return self._batch.result(self._place)


class AsyncProducer(ProducerCalls, AsyncBase):
    """Writes records, each once and in order within its partition. See Producer, whose methods these are."""

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> AsyncDelivery:
        """Append a record; waits only for room in the buffer, and for the metadata of a new topic.

        Without a partition the partitioner decides. `on_delivery` is called with the RecordMetadata or with the error, one
        of them None, by the sending task, which waits for it if it is a coroutine function. Raises what ended the
        transaction, BrokerRefused or RetriesExhausted for a topic that cannot be written, and TypeError or ValueError for
        what no record can have.
        """
        self._transport.require_loop()
        record = given_record(key, value, headers, wall_clock_ms() if timestamp_ms is None else timestamp_ms)
        if not self._core.knows(topic, partition):
            await self._transport.run(self._core.learn_topic(topic, partition))
        await self._wait(lambda: self._core.has_room, self._settings.call_timeout_ms)
        batch, place = self._core.append(topic, partition, record, monotonic_ms(), on_delivery)
        if self._core.must_wake_sender(batch):
            self._wake()
        return AsyncDelivery(batch, place, self._wait)

    async def flush(self, timeout_ms: float | None = None) -> None:
        """Wait until every record is written. Raises what kept one from being written, or RetriesExhausted."""
        self._transport.require_loop()
        self._core.send_now()
        self._wake()
        await self._wait(lambda: self._core.is_flushed, timeout_ms)
        failure = self._core.failure
        self._core.mark_reported(failure)
        if failure is not None:
            raise failure

    async def begin_transaction(self) -> None:
        """Raises ProducerFenced or OutcomeUnknown when the producer is of no use any more."""
        self._core.begin()

    async def commit_transaction(self) -> None:
        """Write what is left and commit. Raises TransactionFailed, ProducerFenced or OutcomeUnknown."""
        async with self._one_call_at_a_time:
            await self.flush()
            await self._transport.run(self._core.commit())

    async def abort_transaction(self) -> None:
        """Give up what is not written and abort. Raises ProducerFenced or OutcomeUnknown."""
        async with self._one_call_at_a_time:
            await self._abort(goes_on=True)

    async def _abort(self, *, goes_on: bool) -> None:
        self._core.require_transaction()
        self._core.drop()
        self._wake()
        await self._wait(lambda: self._core.is_dropped, None)
        await self._transport.run(self._core.abort(goes_on=goes_on))

    async def close(self) -> None:
        """Write what is left and end. A transaction that is open is aborted, as Java's producer does.

        Where that cannot be, it is logged, and the transaction is left to its timeout, or to the next owner of its id.
        Raises, when everything is closed, what kept a record from being written that neither `flush` nor the record's delivery
        or callback has told; in the place of another exception that ends a `with` block, it is a note of that one.
        """
        if self._sender is not None and not self._sender.done():
            self._transport.require_loop()
        await self._abort_open_transaction()
        if self._sender is not None and not self._sender.done():
            self._core.stop()
            self._wake()
            await asyncio.wait((self._sender,))  # a cancellation here closes nothing, and loses nothing
        self._core.stop()
        await super().close()
        self._core.raise_if_ended()
        if not self._core.is_flushed:
            raise IllegalState(CANCELLED)
        unreported = self._core.take_unreported_error()
        if unreported is not None:
            raise unreported

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except Exception as unreported:
            if error is None:
                raise
            error.add_note(f"closing the producer: {unreported}")

    async def _abort_open_transaction(self) -> None:
        """A call of another task that is about the transaction is ended by the close, and not waited for."""
        if not self._core.leaves_transaction_open or self._one_call_at_a_time.locked():
            return
        try:
            async with self._one_call_at_a_time:
                self._core.send_now()
                self._wake()
                await self._wait(lambda: self._core.is_flushed, None)
                await self._abort(goes_on=False)
        except ClientError as error:
            log_left_open(error)

    async def _run(self, flow: Flow[T]) -> T:
        """Run a call that is about a transaction, after those before."""
        try:
            async with self._one_call_at_a_time:
                return await super()._run(flow)
        finally:
            flow.close()

    def _start(self) -> None:
        """The sending task starts with the first call: there may be no event loop yet."""
        self._one_call_at_a_time = asyncio.Lock()
        self._waiters: list[asyncio.Future[None]] = []
        self._sender: asyncio.Task[None] | None = None

    def _wake(self) -> None:
        """Have the sending task look again."""
        if self._sender is None:
            flow = self._core.run_sender()
            self._sender = asyncio.create_task(self._transport.run(flow))
            self._sender.add_done_callback(self._sender_ended)
            self._sender.add_done_callback(lambda _: flow.close())  # a task that is cancelled may never have begun
        self._transport.wake()

    def _sender_ended(self, sender: asyncio.Task[None]) -> None:
        """Report lost records here: an event loop that ends cancels its tasks, and no call may follow."""
        if sender.cancelled() and (count := self._core.unwritten):
            say_lost(count, "the task in which an asyncio producer sends was cancelled before the producer was closed")
        self._changed()

    async def _wait(self, is_so: Callable[[], bool], timeout_ms: float | None) -> None:
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                while not is_so():
                    if self._core.is_closed and (self._sender is None or self._sender.done()):
                        raise IllegalState("this producer was closed")
                    self._core.raise_if_ended()
                    if self._sender is not None and self._sender.done():
                        raise IllegalState(CANCELLED)
                    changed = asyncio.get_running_loop().create_future()
                    self._waiters.append(changed)
                    await changed
        except TimeoutError as error:
            raise RetriesExhausted(f"not done within {timeout_ms:.0f} ms") from error

    def _changed(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
