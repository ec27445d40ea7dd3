"""The ordinary producer without threads or tasks: takes records, sends them, keeps the state of its transactions.

Two flows run side by side: `run_sender` sends for as long as the producer lives, and each call of the user is one of
its own. The asyncio and the blocking producer run both, wake the
sender, and keep their code from running at the same moment. Only the sender touches batches in flight.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from oncelog.client.consumer.offsets import require_offsets
from oncelog.client.errors import (
    ClientError,
    DeliveryFailed,
    IllegalState,
    OutcomeUnknown,
    ProducerFenced,
    TransactionalIdExpired,
    TransactionError,
    TransactionFailed,
    failed_by,
)
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import Callback, Flow, Now, Wait
from oncelog.client.producer.accumulator import OnDelivery, ProducerBatch, RecordAccumulator
from oncelog.client.producer.partition_choice import PartitionChoice
from oncelog.client.producer.producing import NO_PRODUCER, Sender
from oncelog.client.producer.settings import ProducerSettings
from oncelog.client.producer.state import TRANSITIONS, ProducerPhase
from oncelog.client.producer.transaction import TransactionSession, idempotent_identity
from oncelog.client.values import GroupMetadata, OffsetAndMetadata, ProducerIdentity, TopicPartition, TransactionVersion
from oncelog.records import Record

logger = logging.getLogger("oncelog.client")


def log_left_open(error: ClientError) -> None:
    """A producer that is closed could not abort its transaction. One that was replaced has none any more."""
    if not isinstance(error, ProducerFenced):
        logger.warning("an open transaction is left to its timeout, for it could not be aborted: %s", error)


class ProducerCore:
    """The records of a producer that are not sent yet, and the state of its transaction. Calls `changed` after each change."""

    def __init__(self, cluster: Cluster, settings: ProducerSettings, changed: Callable[[], None]) -> None:
        self.settings = settings
        self.state = ProducerPhase.UNINITIALIZED
        self.error: ClientError | None = None
        self._cluster = cluster
        self._changed = changed
        self._choice = PartitionChoice(cluster, settings.partitioner, settings.batch_bytes)
        self._accumulator = RecordAccumulator(settings, self._choice)
        self._sender: Sender | None = None
        self._added: set[TopicPartition] = set()
        self._has_offsets = False
        self.is_closed = False
        self._drop_because: ClientError | None = None
        self._undelivered: list[ProducerBatch] = []
        self._callback_error: Exception | None = None
        self._ended_by: Exception | None = None
        self._session: TransactionSession | None = None
        if settings.transactional_id is not None:
            self._session = TransactionSession(cluster, settings.transactional_id, settings.transaction_timeout_ms)

    @property
    def has_room(self) -> bool:
        waiting_bytes = self._sender.waiting_bytes if self._sender is not None else 0
        return self._accumulator.size_bytes + waiting_bytes <= self.settings.buffer_bytes_max

    @property
    def unwritten(self) -> int:
        """The number of records that are neither written nor given up."""
        return self._accumulator.record_count + (self._sender.waiting_records if self._sender is not None else 0)

    @property
    def is_flushed(self) -> bool:
        """True when every record was written or given up, and every callback was called."""
        is_sent = self._accumulator.is_empty and (self._sender is None or self._sender.is_idle)
        return is_sent and not self._undelivered and self._ended_by is None

    @property
    def is_dropped(self) -> bool:
        """True when nothing waits to be given up, or to be written."""
        is_quiet = self._sender is None or self._sender.is_quiet
        return self._drop_because is None and self.is_flushed and is_quiet

    @property
    def leaves_transaction_open(self) -> bool:
        """True if a close without an abort would leave a transaction open until its timeout."""
        is_open = self.state in (ProducerPhase.IN_TRANSACTION, ProducerPhase.ABORTABLE_ERROR)
        has_something = bool(self._added) or self._has_offsets or not self.is_flushed
        return is_open and has_something and not self.is_closed and self._ended_by is None

    def knows(self, topic: str, partition: int | None) -> bool:
        """True if a record for this partition, or for any, can be appended. Raises ValueError for one below 0."""
        self._require_alive()
        if partition is not None and partition < 0:
            raise ValueError(f"partition is {partition}: the first one is 0")
        return self._choice.knows(topic, partition)

    def learn_topic(self, topic: str, partition: int | None) -> Flow[None]:
        """Find out how many partitions a topic has. Raises BrokerRefused or RetriesExhausted."""
        return self._choice.learn_topic(topic, partition)

    def append(
        self,
        topic: str,
        partition: int | None,
        record: Record,
        now_ms: float,
        on_delivery: OnDelivery | None = None,
    ) -> tuple[ProducerBatch, int]:
        """Put a record of a known topic where it belongs; return its batch and its place in it.

        Raises TransactionFailed, ProducerFenced or OutcomeUnknown when the transaction takes no more records, and ValueError
        when the partitioner chose a partition that is not there, or no batch can hold the record.
        """
        self._require_alive()
        self._require_open()
        number = self._choice.chosen(topic, record) if partition is None else partition
        chosen = self._accumulator.place(topic, record) if number is None else TopicPartition(topic, number)
        batch, place = self._accumulator.append(chosen, record, now_ms)
        if on_delivery is not None:
            if not batch.callbacks:
                self._undelivered.append(batch)
            batch.callbacks.append((place, on_delivery))
        return batch, place

    def abort_if_maybe_appended(self, record: Record, *, is_appended: bool) -> None:
        """Fail the transaction if a record is in it although its `append` was interrupted."""
        is_in_transaction = self.state is ProducerPhase.IN_TRANSACTION
        if is_in_transaction and (is_appended or self._accumulator.holds(record)):
            self._fail(TransactionFailed("sending a record to the transaction was interrupted"))

    def must_wake_sender(self, batch: ProducerBatch) -> bool:
        """True if the sender has to be woken for the record that was just appended to `batch`."""
        return len(batch.records) == 1

    def send_now(self) -> None:
        """Have what is there sent without waiting for more."""
        self._accumulator.sends_now = True

    def require_transaction(self) -> None:
        """Raises IllegalState where there is no transaction to end, and what ended the producer."""
        self._transactional()
        self._raise_if_dead()
        if self.state not in (ProducerPhase.IN_TRANSACTION, ProducerPhase.ABORTABLE_ERROR):
            raise IllegalState(f"no transaction is open: the producer is {self.state.value}")

    def stop(self) -> None:
        """End `run_sender` when it has nothing left to send."""
        self.is_closed = True
        self.send_now()

    def drop(self) -> None:
        """Have what is not written yet given up. The transaction can only be aborted after that."""
        self._fail(TransactionFailed("the transaction was aborted"))

    @property
    def failure(self) -> Exception | None:
        """The first error, of the user's callbacks too, that no caller was given yet."""
        return self.error or self._callback_error

    def mark_reported(self, failure: Exception | None) -> None:
        """Forget an error that a caller is given. A transaction keeps its own error until it is aborted."""
        if self._callback_error is failure:
            self._callback_error = None
        if self._session is None and self.error is failure:
            self.error = None

    def take_unreported_error(self) -> Exception | None:
        """The error of a record outside transactions that neither its delivery nor a flush has raised. It is given once."""
        if self._session is not None:
            return None
        failure = self.failure
        self.mark_reported(failure)
        return None if isinstance(failure, ClientError) and failure.was_reported else failure

    async def run_sender(self) -> None:
        """Send until `stop` was called and nothing is left. Every call raises an error that ends it earlier."""
        try:
            await self._send_all()
        except Exception as error:  # noqa: BLE001 - every call raises it from then on
            self._ended_by = error

    def raise_if_ended(self) -> None:
        """Raises IllegalState where nothing is sent any more, although nobody has closed the producer."""
        if self._ended_by is not None:
            raise IllegalState(
                f"this producer has failed, and what it had not written is lost: {self._ended_by!r}"
            ) from self._ended_by

    async def _send_all(self) -> None:
        while not (self.is_closed and self.is_flushed):
            if self._drop_because is not None:
                self._give_up(self._drop_because)
                self._drop_because = None
                await self._tell()
                self._changed()
            elif (
                self._session is not None
                and self._sender is not None
                and self._sender.error
                and not self._sender.is_quiet
            ):
                await self._sender.await_unanswered()
                self._changed()
            elif self.is_flushed:
                self._accumulator.sends_now = False
                await Wait((), None, until_woken=True)
            else:
                try:
                    await self._send()
                except ClientError as error:
                    self._fail(error)
                await self._tell()
                self._changed()

    async def init(self) -> None:
        """Take the transactional id. Raises BrokerRefused or RetriesExhausted."""
        session = self._transactional()
        if self.state is not ProducerPhase.UNINITIALIZED:
            raise IllegalState("init_transactions is called once")
        identity = await session.init()
        self._sender = self._new_sender(identity)
        self._become(ProducerPhase.READY)

    def begin(self) -> None:
        """Begin a transaction. Raises what ended the producer."""
        session = self._transactional()
        self._raise_if_dead()
        if self.state is not ProducerPhase.READY:
            raise IllegalState(f"no transaction begins while the producer is {self.state.value}")
        if self._sender is None or self._sender.error is not None or self._sender.identity != session.identity:
            self._sender = self._new_sender(session.identity)
        self._sender.begin_transaction()
        self._added.clear()
        self._has_offsets = False
        self.error = self._callback_error = None
        self._become(ProducerPhase.IN_TRANSACTION)

    async def commit_offsets(
        self, group: str | GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Raises TransactionFailed, ProducerFenced or BrokerRefused."""
        session = self._transactional()
        self._require_open()
        require_offsets(offsets)
        self._has_offsets = True
        try:
            await session.commit_offsets(group, offsets)
        except ClientError as error:
            self._fail(error)
            raise (self.error or error) from error.__cause__
        except BaseException:
            # They may be part of the transaction or not, and may become so still.
            self._fail(TransactionFailed("sending offsets to the transaction was interrupted"))
            raise

    async def commit(self) -> None:
        """Commit. Everything must be flushed. Raises TransactionFailed, ProducerFenced or OutcomeUnknown."""
        self._transactional()
        self._require_open()
        self._require_flushed()
        await self._end(ProducerPhase.COMMITTING_TRANSACTION)

    def fail_if_maybe_committed(self) -> None:
        """Fail a transaction that was committed although the call was interrupted: its caller does not know."""
        if self.state is ProducerPhase.READY:
            self._fail(_interrupted(ProducerPhase.COMMITTING_TRANSACTION))

    async def abort(self, *, goes_on: bool = True) -> None:
        """Abort. What was not written must have been dropped. Raises ProducerFenced or OutcomeUnknown.

        A producer that `goes_on` needs another epoch. With TV1 that waits for the markers, and so for a leader of each partition.
        """
        self.require_transaction()
        self._require_flushed()
        await self._end(ProducerPhase.ABORTING_TRANSACTION, goes_on=goes_on)

    async def _end(self, phase: ProducerPhase, *, goes_on: bool = True) -> None:
        session, commit = self._transactional(), phase is ProducerPhase.COMMITTING_TRANSACTION
        try:
            self._become(phase)
            # Nothing was added, so there is nothing to end: the coordinator would take it for a retry of the last end.
            if self._added or self._has_offsets:
                await session.end(commit)
            if not commit and goes_on:
                await session.bump()
            self.error = None
            self._become(ProducerPhase.READY)
        except ClientError as error:
            self._fail(error)
            raise (self.error or error) from error.__cause__
        except BaseException:
            if self.state is phase:
                self._fail(_interrupted(phase))
            raise

    async def _send(self) -> None:
        sender = await self._ready_sender()
        now_ms = await Now()
        linger_ms = self._accumulator.close_ripe(now_ms)
        while (batch := self._accumulator.take_full()) is not None:
            batch.encoded = sender.enqueue(
                batch.partition,
                batch.encode(self.settings.compression),
                now_ms,
                batch.divide(self.settings.compression),
            )
        await self._add_new_partitions(sender)
        await sender.step(linger_ms, until_woken=True)
        if self.error is None or self.error.was_reported:
            self.error = sender.take_refusal() or self.error

    async def _tell(self) -> None:
        """Call back for every record that is written or given up. The next flush raises what the user's code raises."""
        for batch in [batch for batch in self._undelivered if batch.is_done]:
            for place, on_delivery in batch.callbacks:
                try:
                    await Callback(partial(on_delivery, *batch.outcome(place)))
                except Exception as error:  # noqa: BLE001 - the user's code must not end the sending
                    self._callback_error = error
            self._undelivered.remove(batch)

    async def _ready_sender(self) -> Sender:
        if self._session is None and (self._sender is None or self._sender.error is not None):
            identity = NO_PRODUCER
            if self.settings.is_idempotent:
                identity = await idempotent_identity(self._cluster)
            self._sender = self._new_sender(identity)
        assert self._sender is not None
        return self._sender

    async def _add_new_partitions(self, sender: Sender) -> None:
        if self._session is None:
            return
        new = sender.waiting_partitions - self._added
        self._added |= new
        if new and self._session.version is TransactionVersion.TV1:
            await self._session.add_partitions(new)

    def _new_sender(self, identity: ProducerIdentity) -> Sender:
        return Sender(
            self._cluster,
            identity,
            transactional_id=self.settings.transactional_id,
            transaction_version=TransactionVersion.TV1 if self._session is None else self._session.version,
            delivery_timeout_ms=self.settings.delivery_timeout_ms,
            metadata_max_age_ms=self.settings.metadata_max_age_ms,
            max_in_flight=self.settings.max_in_flight,
            retries=self.settings.retries,
            explain=None if self._session is None else self._session.explained,
            create_topics=True,
            acks=self.settings.acks,
        )

    def _fail(self, cause: ClientError) -> None:
        error = cause
        if self._session is not None and not isinstance(error, TransactionError):
            error = failed_by(error)
        if self._session is not None and self.state is not ProducerPhase.FATAL_ERROR:
            is_final = isinstance(error, ProducerFenced | TransactionalIdExpired | OutcomeUnknown)
            is_final = is_final or self.state is ProducerPhase.ABORTING_TRANSACTION
            if is_final or self.error is None:
                self.error = error
            self._become(ProducerPhase.FATAL_ERROR if is_final else ProducerPhase.ABORTABLE_ERROR)
        elif self.error is None:
            self.error = error
        # At last: what is given up is part of no transaction that could still be committed, wherever this is interrupted.
        self._drop_because = cause
        self._changed()

    def _give_up(self, error: ClientError) -> None:
        is_alone = self._session is None and not isinstance(error, DeliveryFailed)
        for batch in self._accumulator.take_all():
            batch.error = error
            if is_alone:
                batch.error = DeliveryFailed(f"{batch.partition}: {error}")
                batch.error.__cause__ = error
        if self._sender is not None:
            self._sender.fail(error)

    def _transactional(self) -> TransactionSession:
        self._require_alive()
        if self._session is None:
            raise IllegalState("this producer was made without a transactional_id")
        return self._session

    def _require_open(self) -> None:
        if self._session is None:
            return
        self._raise_if_dead()
        if self.state is ProducerPhase.ABORTABLE_ERROR:
            raise TransactionFailed(f"the transaction has failed: {self.error}") from self.error
        if self.state is not ProducerPhase.IN_TRANSACTION:
            raise IllegalState(f"no transaction is open: the producer is {self.state.value}")

    def _require_alive(self) -> None:
        if self._ended_by is not None:
            self.raise_if_ended()
        if self.is_closed:
            raise IllegalState("this producer was closed")

    def _require_flushed(self) -> None:
        if not self.is_flushed:
            raise IllegalState("a record was sent while its transaction was being ended")

    def _raise_if_dead(self) -> None:
        if self.state is ProducerPhase.FATAL_ERROR:
            assert self.error is not None
            raise self.error

    def _become(self, state: ProducerPhase) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state.value} does not become {state.value}"
        self.state = state


def _interrupted(phase: ProducerPhase) -> OutcomeUnknown:
    return OutcomeUnknown(f"{phase.value} the transaction was interrupted before it was answered")
