"""The blocking sender of ready-made record batches: tasks write with it, and drivers that send themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from typing_extensions import Buffer

from oncelog.client.net.settings import DEFAULT_RETRY, ClientSettings, RetryPolicy, parse_addresses
from oncelog.client.producer.partition_queue import Written
from oncelog.client.producer.producing import Sender
from oncelog.client.transports.blocking.client import BlockingBase
from oncelog.client.transports.blocking.transport import monotonic_ms
from oncelog.client.values import ProducerIdentity, TopicPartition, TransactionVersion
from oncelog.security.values import PLAINTEXT, Security

WAITING_BYTES_MAX = 32 * 1024 * 1024


class BatchSender(BlockingBase):
    """Writes batches into a transaction that somebody else begins and ends, over one connection per leader.

    The partitions must be nobody else's in this transaction: sequences begin at 0 in each. What was not flushed before
    `close` may or may not be written: only an abort is safe then. Without a transactional id there is no transaction, and
    each batch is visible at once. For one thread at a time.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        transactional_id: str | None,
        identity: ProducerIdentity,
        transaction_version: TransactionVersion,
        *,
        client_id: str = "oncelog",
        request_timeout_ms: float = 30_000,
        delivery_timeout_ms: float = 120_000,
        waiting_bytes_max: int = WAITING_BYTES_MAX,
        retry_backoff_ms: float = DEFAULT_RETRY.backoff_ms,
        retry_backoff_max_ms: float = DEFAULT_RETRY.backoff_max_ms,
        security: Security = PLAINTEXT,
    ) -> None:
        """A batch that no broker takes for `delivery_timeout_ms` fails the sender.

        `send` waits while more than `waiting_bytes_max` are not acknowledged.
        """
        super().__init__(
            ClientSettings(
                parse_addresses(bootstrap_servers, security),
                client_id=client_id,
                request_timeout_ms=request_timeout_ms,
                security=security,
                retry=RetryPolicy(retry_backoff_ms, retry_backoff_max_ms),
            )
        )
        self._waiting_bytes_max = waiting_bytes_max
        self._sender = Sender(
            self._cluster,
            identity,
            transactional_id=transactional_id,
            transaction_version=transaction_version,
            delivery_timeout_ms=delivery_timeout_ms,
        )

    def send(self, batches: Mapping[TopicPartition, Sequence[Buffer]]) -> None:
        """Send unstamped batches, in order within each partition. The first of all partitions leave in one request.

        Returns when they are in flight or queued; `flush` waits for the acknowledgements. Raises TransactionFailed,
        ProducerFenced or BrokerRefused, for these batches or earlier ones; the sender is of no use then.
        """
        for partition, several in batches.items():
            for data in several:
                self._sender.enqueue(partition, data, monotonic_ms())
        if not self._sender.is_idle:
            self._step(0)
        while self._sender.waiting_bytes > self._waiting_bytes_max:
            self._step()

    def flush(self) -> dict[TopicPartition, Written]:
        """Wait until every batch is acknowledged; return what was written in each partition since `begin`.

        Raises as `send` does.
        """
        while not self._sender.is_idle:
            self._step()
        if self._sender.error is not None:
            raise self._sender.error
        return self._sender.written()

    def begin(self, identity: ProducerIdentity) -> None:
        """Go on in the next transaction, under its identity, over the same connections. Everything must be flushed."""
        self._sender.begin(identity)

    def _step(self, timeout_ms: float | None = None) -> None:
        self._run(self._sender.step(timeout_ms))
        refusal = self._sender.take_refusal()
        if refusal is not None:
            self._sender.fail(refusal)
            raise refusal
