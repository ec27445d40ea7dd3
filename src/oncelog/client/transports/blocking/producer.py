"""The blocking producer: idempotent, or transactional. A thread of its own sends what the callers append."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from oncelog.client.errors import ClientError, IllegalState, RetriesExhausted
from oncelog.client.producer.accumulator import Headers, OnDelivery, ProducerBatch, RecordMetadata, given_record
from oncelog.client.producer.core import log_left_open
from oncelog.client.producer.state import ProducerPhase
from oncelog.client.transports.blocking.client import BackgroundRun, BlockingBase
from oncelog.client.transports.blocking.transport import BlockingTransport, monotonic_ms, wall_clock_ms
from oncelog.client.transports.calls.producer import ProducerCalls, watch


class Delivery:
    """One record that was sent, and its result."""

    __slots__ = ("_batch", "_place", "_wait")

    def __init__(
        self, batch: ProducerBatch, place: int, wait: Callable[[Callable[[], bool], float | None], None]
    ) -> None:
        self._batch = batch
        self._place = place
        self._wait = wait

    @property
    def is_done(self) -> bool:
        return self._batch.is_done

    def result(self, timeout_ms: float | None = None) -> RecordMetadata:
        """Wait until the record is written, for `timeout_ms` at most: after that RetriesExhausted, and the record goes on.

        Raises DeliveryUnknown when it may be written or not. Every other error says that it is not: BrokerRefused,
        DeliveryFailed, or what ended its transaction.
        """
        self._wait(lambda: self._batch.is_done, timeout_ms)
        return self._batch.result(self._place)


class Producer(ProducerCalls, BlockingBase):
    """Writes records, each once and in order within its partition. Threads may share one.

    With a `transactional_id`: `init_transactions` once, then `begin_transaction`, any number of `send` and
    `send_offsets_to_transaction`, and `commit_transaction` or `abort_transaction`, again and again. Three things can end
    a transaction otherwise: TransactionFailed (abort it and try again), ProducerFenced (another producer has the id now:
    stop) and OutcomeUnknown (it may be committed or not: stop, and read the log).
    """

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Append a record and return at once, unless the buffer is full or the topic is new to this producer.

        Without a partition the partitioner decides. `on_delivery` is called with the RecordMetadata or with the error, one
        of them None, on the sending thread: it must be quick, and wait for nothing of this producer. Raises what ended the
        transaction, BrokerRefused or RetriesExhausted for a topic that cannot be written, and TypeError or ValueError for
        what no record can have.
        """
        record = given_record(key, value, headers, wall_clock_ms() if timestamp_ms is None else timestamp_ms)
        if not self._core.knows(topic, partition):
            self._learn(topic, partition)
        appended: tuple[ProducerBatch, int] | None = None
        must_wake_sender = False

        def append() -> bool:
            nonlocal appended, must_wake_sender
            if self._core.has_room:
                appended = self._core.append(topic, partition, record, monotonic_ms(), on_delivery)
                must_wake_sender = self._core.must_wake_sender(appended[0])
            return appended is not None

        try:
            with self._lock.ours():
                append()
            if appended is None:
                self._wait(append, self._settings.call_timeout_ms)
            if must_wake_sender:
                self._sending.wake()
            assert appended is not None, "the wait ends when it is appended"
            return Delivery(*appended, self._wait)
        except BaseException:
            with self._lock.ours():
                self._core.abort_if_maybe_appended(record, is_appended=appended is not None)
            self._sending.wake()
            raise

    def flush(self, timeout_ms: float | None = None) -> None:
        """Wait until every record is written. Raises what kept one from being written, or RetriesExhausted."""
        with self._lock.ours():
            self._core.send_now()
        self._sending.wake()
        self._wait(lambda: self._core.is_flushed, timeout_ms)
        with self._lock.ours():
            failure = self._core.failure
        # At last, and without a lock whose release a signal could follow: an interrupted flush leaves it to the next one.
        self._core.mark_reported(failure)
        if failure is not None:
            raise failure

    def begin_transaction(self) -> None:
        """Raises ProducerFenced or OutcomeUnknown when the producer is of no use any more."""
        with self._lock.ours():
            self._core.begin()

    def commit_transaction(self) -> None:
        """Write what is left and commit.

        Raises TransactionFailed when the transaction is known not to be committed, ProducerFenced when another producer
        has the id, and OutcomeUnknown when no definite answer came.
        """
        is_open = self._core.state is ProducerPhase.IN_TRANSACTION
        try:
            with self._one_at_a_time.ours():
                self.flush()
                self._transport.run(self._core.commit())
        except ClientError:
            raise
        except BaseException:
            if is_open:
                with self._lock.ours():
                    self._core.fail_if_maybe_committed()
            raise

    def abort_transaction(self) -> None:
        """Give up what is not written and abort. Raises ProducerFenced or OutcomeUnknown."""
        with self._one_at_a_time.ours():
            self._abort(goes_on=True)

    def _abort(self, *, goes_on: bool) -> None:
        with self._lock.ours():
            self._core.require_transaction()
            self._core.drop()
        self._sending.wake()
        self._wait(lambda: self._core.is_dropped, None)
        self._transport.run(self._core.abort(goes_on=goes_on))

    def close(self) -> None:
        """Write what is left and end. A transaction that is open is aborted, as Java's producer does.

        Where that cannot be, it is logged, and the transaction is left to its timeout, or to the next owner of its id. A process
        that was forked writes nothing and aborts nothing: that is left to the one that it came from.
        Raises, when everything is closed, what kept a record from being written that neither `flush` nor the record's delivery
        or callback has told; in the place of another exception that ends a `with` block, it is a note of that one.
        """
        if self._ownership.is_ours:
            self._abort_open_transaction()
            with self._lock.ours():
                self._core.stop()
            self._sending.wake()
            self._sender.join()
        self._sending.close()
        super().close()
        for transport in self._lookups:
            transport.close()
        if self._ownership.is_ours:
            self._core.raise_if_ended()
            unreported = self._core.take_unreported_error()
            if unreported is not None:
                raise unreported

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception as unreported:
            if error is None:
                raise
            error.add_note(f"closing the producer: {unreported}")

    def unwritten(self) -> int:
        """The number of records that would be lost if this process ended now."""
        if not self._ownership.is_ours:
            return 0
        with self._lock.ours():
            return self._core.unwritten

    def _abort_open_transaction(self) -> None:
        """A call of another thread that is about the transaction is ended by the close, and not waited for."""
        if not self._core.leaves_transaction_open or not self._one_at_a_time.is_free():
            return
        with self._one_at_a_time.ours():
            try:
                with self._lock.ours():
                    self._core.send_now()
                self._sending.wake()
                self._wait(lambda: self._core.is_flushed, None)
                self._abort(goes_on=False)
            except ClientError as error:
                log_left_open(error)

    def _start(self) -> None:
        self._lookups: list[BlockingTransport] = []
        self._sending = BlockingTransport(self._settings, self._lock)
        self._sender = BackgroundRun(self._sending, self._core.run_sender(), self._notify, name="oncelog-producer")
        self._sender.start()
        watch(self)

    def _learn(self, topic: str, partition: int | None) -> None:
        """Learn of a topic, beside other calls: a missing topic does not hold up writes to others."""
        transport = self._lookups.pop() if self._lookups else BlockingTransport(self._settings, self._lock)
        try:
            transport.run(self._core.learn_topic(topic, partition))
        finally:
            self._lookups.append(transport)

    def _wait(self, is_so: Callable[[], bool], timeout_ms: float | None) -> None:
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        was_so = False

        def is_over() -> bool:
            nonlocal was_so
            was_so = is_so()
            return was_so or self._sender.is_over

        if not self._lock.wait_for(is_over, timeout_s):
            raise RetriesExhausted(f"not done within {timeout_ms:.0f} ms")
        if not was_so:
            self._core.raise_if_ended()
            if self._core.is_closed:
                raise IllegalState("this producer was closed")
        assert was_so, "the sending thread ended early"

    def _changed(self) -> None:
        self._lock.notify_all()

    def _notify(self) -> None:
        with self._lock.ours():
            self._changed()
