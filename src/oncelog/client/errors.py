"""The errors of the client. Those that say "failed" and those that say "unknown" are different types.

"It failed", "somebody else took over" and "nobody knows" are different types, because each asks for something else:
abort and retry, stop, and read the log before deciding.
"""

from __future__ import annotations

from oncelog.client.values import TopicPartition
from oncelog.wire import ErrorCode

RETRIABLE = frozenset(error for error in ErrorCode if error.retriable)
"""Answers after which the same request may succeed by itself, as Kafka's table of errors has them."""

STALE_METADATA = frozenset(ErrorCode(code) for code in (3, 5, 6, 9, 13, 56, 72, 74, 75, 100, 103))
"""Answers that say the client asked the wrong broker, or knows the topic by an old name or id."""

STALE_COORDINATOR = frozenset({ErrorCode.coordinator_not_available, ErrorCode.not_coordinator})
"""Answers after which the coordinator is looked up again."""


TAKEN_OVER_OR_TIMED_OUT = (
    "another producer has taken the transactional id since, or the transaction outlasted transaction.timeout.ms"
)


class ClientError(Exception):
    """The base of everything the client raises."""

    was_reported = False
    """True once a caller was given the error. `close` raises one that no caller was given."""


class IllegalState(ClientError):
    """The call does not fit what was called before: a transaction that was not begun, an object that is closed."""


class ConnectionLost(ClientError):
    """The connection could not be made, or ended before the answer came.

    `sent` is false when the request did not leave this client: it was certainly not carried out.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent

    def __reduce__(self) -> tuple[object, ...]:
        return _lost, (str(self), self.sent)


def _lost(message: str, sent: bool) -> ConnectionLost:
    return ConnectionLost(message, sent=sent)


class AuthenticationFailed(ClientError):
    """TLS or SASL failed: the broker did not accept this client, or is not the broker that it should be.

    Nothing was sent, and trying again with the same settings changes nothing.
    """


class UnsupportedVersion(ClientError):
    """The broker has no version of a request that can say what has to be said."""


class BrokerRefused(ClientError):
    """A broker answered with an error code that repeating the request does not change.

    `right` is the right that is missing, where the error is about rights: "Write on topic orders".
    """

    def __init__(self, error: ErrorCode, message: str, right: str | None = None) -> None:
        super().__init__(error, message, right)
        self.error = error
        self.message = message
        self.right = right

    def __str__(self) -> str:
        return f"{self.message}: {describe(self.error, self.right)}"


class AuthorizationFailed(BrokerRefused):
    """A right is missing, and `right` names it. Nothing was done; the call succeeds once the right is given."""


class TopicAuthorizationFailed(AuthorizationFailed):
    """A right on a topic is missing. What is about other topics goes on."""


class GroupAuthorizationFailed(AuthorizationFailed):
    """A right on a group is missing."""


class TransactionalIdAuthorizationFailed(AuthorizationFailed):
    """A right on a transactional id is missing."""


class ClusterAuthorizationFailed(AuthorizationFailed):
    """A right on the cluster is missing."""


class OutOfOrderSequence(BrokerRefused):
    """The leader lacks records of this producer that were acknowledged before this one: its log has lost them.

    The record is not written. An idempotent producer writes the next ones under a new epoch. Whether something is to be
    written once more, only the log can tell.
    """


_KINDS: dict[ErrorCode, type[BrokerRefused]] = {
    ErrorCode.topic_authorization_failed: TopicAuthorizationFailed,
    ErrorCode.group_authorization_failed: GroupAuthorizationFailed,
    ErrorCode.transactional_id_authorization_failed: TransactionalIdAuthorizationFailed,
    ErrorCode.cluster_authorization_failed: ClusterAuthorizationFailed,
    ErrorCode.out_of_order_sequence_number: OutOfOrderSequence,
}


def broker_refusal(error: ErrorCode, message: str, right: str | None = None) -> BrokerRefused:
    """A broker's refusal, of the type that says what the program may do next."""
    return _KINDS.get(error, BrokerRefused)(error, message, right)


class RetriesExhausted(ClientError):
    """Every answer in the time allowed was "not now", or none came. The last of them is the cause."""


class OffsetOutOfRange(BrokerRefused):
    """The log does not have, or no longer has, the offset that was asked for."""


class LogTruncated(OffsetOutOfRange):
    """A log was cut back to `offset`, below what was read of it, and may have grown again since (KIP-320)."""

    def __init__(self, partition: TopicPartition, position: int, offset: int) -> None:
        message = f"{partition} was read up to offset {position}, and then cut back to {offset}"
        super().__init__(ErrorCode.offset_out_of_range, message)
        self.partition = partition
        self.position = position
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        return LogTruncated, (self.partition, self.position, self.offset)


class CorruptRecords(ClientError):
    """Records came that are not those that were written. They were not handed out, and the position is before them."""


class DeliveryFailed(RetriesExhausted):
    """A record was given up, and is certainly not written."""


class DeliveryUnknown(ClientError):
    """A record was sent and no definite answer came: it may be written or not, and only the log can tell."""


class NoOffset(ClientError):
    """The group has committed no offset for a partition, and the consumer was told not to choose one itself."""


class CommitFailed(BrokerRefused):
    """The offsets were not committed: the consumer is no member of its group as it is now.

    Another member may have its partitions, and reads again what this one has read.
    """


class MemberFenced(BrokerRefused):
    """Another consumer has the group instance id now. This one must stop."""


class TransactionError(ClientError):
    """The base of the four ends of a transaction that is not committed, or not known to be."""


class TransactionFailed(TransactionError):
    """The transaction is known not to be committed. Abort it, and it can be tried again."""

    def __init__(self, message: str, error: ErrorCode = ErrorCode.none) -> None:
        super().__init__(message, error)
        self.message = message
        self.error = error

    def __str__(self) -> str:
        return self.message if self.error is ErrorCode.none else f"{self.message}: {describe(self.error)}"


class ProducerFenced(TransactionError):
    """Another producer owns the transactional id now. This one must stop, and must not initialize again.

    A first-generation producer (TV1) is answered the same where its own transaction outlasted its timeout.
    """

    def __init__(self, message: str, error: ErrorCode = ErrorCode.producer_fenced) -> None:
        super().__init__(message, error)
        self.message = message
        self.error = error

    def __str__(self) -> str:
        why = "" if self.error is ErrorCode.invalid_producer_id_mapping else f"; {TAKEN_OVER_OR_TIMED_OUT}"
        return f"{self.message}: {describe(self.error)}{why}"


class TransactionalIdExpired(TransactionError):
    """The coordinator has forgotten the transactional id: it was idle for the broker's `transactional.id.expiration.ms`.

    Nothing of the transaction was committed. A new producer with the same id goes on, once it has read how far the log is:
    another one may have had the id meanwhile, and have been forgotten too.
    """


class OutcomeUnknown(TransactionError):
    """The end of the transaction was asked for and no definite answer came: it may be committed or aborted.

    Only the log can tell. A new producer that initializes with the same transactional id settles it.
    """


def failed_by(error: ClientError) -> TransactionFailed:
    """The failure of a whole transaction, of which a broker refused a part."""
    failed = TransactionFailed(str(error))
    failed.__cause__ = error
    return failed


def describe(error: ErrorCode, missing_right: str | None = None) -> str:
    """An error code as Kafka's documentation spells it, with the right that is missing, if the error is about one."""
    missing = "" if missing_right is None else f"; the right that is missing: {missing_right}"
    return f"{error.name.upper()} ({error.value}){missing}"
