"""The blocking shared producer: one producer id and epoch that a driver holds and many tasks write with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.client.net.settings import DEFAULT_RETRY, ClientSettings, RetryPolicy, parse_addresses
from oncelog.client.producer.transaction import TransactionSession
from oncelog.client.transports.blocking.client import BlockingBase
from oncelog.client.values import OffsetAndMetadata, ProducerIdentity, TopicPartition, TransactionVersion
from oncelog.security.values import PLAINTEXT, Security


class SharedProducer(BlockingBase):
    """The driver's half: takes the identity, names the partitions, commits offsets, ends the transaction.

    The other half is a BatchSender in each task. End a transaction only when no task can write any more: until the
    markers land, a broker still takes batches of the old epoch, and after a commit they would be visible.

    Every method raises ProducerFenced when another producer owns the id, BrokerRefused when a broker says no for good,
    and, inside a transaction, TransactionFailed when it is known not to be committed. After ProducerFenced and
    OutcomeUnknown the object is of no use, and a new one must not be made without first finding out why.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        transactional_id: str,
        *,
        timeout_ms: int = 60_000,
        client_id: str = "oncelog",
        request_timeout_ms: float = 30_000,
        call_timeout_ms: float = 60_000,
        retry_backoff_ms: float = DEFAULT_RETRY.backoff_ms,
        retry_backoff_max_ms: float = DEFAULT_RETRY.backoff_max_ms,
        security: Security = PLAINTEXT,
    ) -> None:
        """The coordinator aborts a transaction that stays open for longer than `timeout_ms`."""
        super().__init__(
            ClientSettings(
                parse_addresses(bootstrap_servers, security),
                client_id=client_id,
                request_timeout_ms=request_timeout_ms,
                call_timeout_ms=call_timeout_ms,
                security=security,
                retry=RetryPolicy(retry_backoff_ms, retry_backoff_max_ms),
            )
        )
        self._session = TransactionSession(self._cluster, transactional_id, timeout_ms)

    @property
    def transactional_id(self) -> str:
        return self._session.transactional_id

    @property
    def identity(self) -> ProducerIdentity:
        """The identity that tasks write with. Known after `init`; changes with `bump`, and on TV2 with `end`."""
        return self._session.identity

    @property
    def transaction_version(self) -> TransactionVersion:
        """The protocol that was chosen by `init`, which tasks must speak too."""
        return self._session.version

    def init(self) -> ProducerIdentity:
        """Take the transactional id from its owner before, and wait until that one's transaction has ended. Once only."""
        return self._run(self._session.init())

    def bump(self) -> ProducerIdentity:
        """Make sure that the next transaction has an epoch of its own. Asks only where the end does not bring one."""
        return self._run(self._session.bump())

    def await_end(self) -> ProducerIdentity:
        """Wait until the last transaction has ended, as its coordinator sees it: `end` returns before the markers are written.

        The next transaction has an epoch of its own then, as after `bump`. Asks nobody when there was none since.
        """
        return self._run(self._session.await_end())

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Make partitions part of the transaction. Needed on TV1, and on TV2 it spares tasks a wait."""
        self._run(self._session.add_partitions(partitions))

    def commit_offsets(self, group: str, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Make a group's offsets part of the transaction."""
        self._run(self._session.commit_offsets(group, committed))

    def commit_offsets_and_read(
        self, group: str, committed: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Make a group's offsets part of the transaction, and return what it had committed before.

        The coordinator that took them says it, and no other: one that leads no more may not know of the newest.
        """
        return self._run(self._session.commit_offsets_and_read(group, committed))

    def end(self, commit: bool) -> ProducerIdentity:
        """Commit or abort; return the identity for the next transaction, which `bump` may still change.

        Raises OutcomeUnknown when no definite answer came.
        """
        return self._run(self._session.end(commit))
