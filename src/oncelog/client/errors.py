"""What a client can say when something did not happen, or may have.

"It failed", "somebody else took over" and "nobody knows" are different types, because each asks for something else:
abort and retry, stop, and read the log before deciding.
"""

from __future__ import annotations

from oncelog.wire import ErrorCode

RETRIABLE = frozenset(
    ErrorCode(code)
    for code in (
        2,
        3,
        5,
        6,
        7,
        8,
        9,
        13,
        14,
        15,
        16,
        19,
        20,
        41,
        51,
        56,
        70,
        71,
        74,
        75,
        78,
        80,
        83,
        84,
        88,
        89,
        100,
        103,
        106,
    )
)
"""Answers after which the same request may succeed by itself."""

STALE_METADATA = frozenset(ErrorCode(code) for code in (3, 5, 6, 9, 13, 56, 72, 74, 75, 100, 103))
"""Answers that say the client asked the wrong broker, or knows the topic by an old name or id."""

STALE_COORDINATOR = frozenset({ErrorCode.coordinator_not_available, ErrorCode.not_coordinator})
"""Answers after which the coordinator is looked up again."""


class ClientError(Exception):
    """The base of everything the client raises."""


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


class UnsupportedVersion(ClientError):
    """The broker has no version of a request that can say what has to be said."""


class BrokerRefused(ClientError):
    """A broker answered with an error code that repeating the request does not change."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(error, message)
        self.error = error
        self.message = message

    def __str__(self) -> str:
        return f"{self.message}: {describe(self.error)}"


class RetriesExhausted(ClientError):
    """Every answer in the time allowed was "not now", or none came. The last of them is the cause."""


class OffsetOutOfRange(BrokerRefused):
    """The log does not have, or no longer has, the offset that was asked for."""


class DeliveryFailed(RetriesExhausted):
    """A record was given up, and is certainly not written."""


class DeliveryUnknown(ClientError):
    """A record was sent and no definite answer came: it may be written or not, and only the log can tell."""


class NoOffset(ClientError):
    """The group has committed no offset for a partition, and the consumer was told not to choose one itself."""


class CommitFailed(BrokerRefused):
    """The offsets were not committed: the consumer is no member of its group as it is now.

    Its partitions may be somebody else's, who reads what it has read once more.
    """


class MemberFenced(BrokerRefused):
    """Another consumer has the group instance id now. This one must stop."""


class TransactionError(ClientError):
    """The base of the three ends of a transaction that is not committed, or not known to be."""


class TransactionFailed(TransactionError):
    """The transaction is known not to be committed. Abort it, and it can be tried again."""

    def __init__(self, message: str, error: ErrorCode = ErrorCode.none) -> None:
        super().__init__(message, error)
        self.message = message
        self.error = error

    def __str__(self) -> str:
        return self.message if self.error is ErrorCode.none else f"{self.message}: {describe(self.error)}"


class ProducerFenced(TransactionError):
    """Another producer owns the transactional id now. This one must stop, and must not initialize again."""

    def __init__(self, message: str, error: ErrorCode = ErrorCode.producer_fenced) -> None:
        super().__init__(message, error)
        self.message = message
        self.error = error

    def __str__(self) -> str:
        return f"{self.message}: {describe(self.error)}"


class OutcomeUnknown(TransactionError):
    """The end of the transaction was asked for and no definite answer came: it may be committed or aborted.

    Only the log can tell. A new producer that initializes with the same transactional id settles it.
    """


def describe(error: ErrorCode) -> str:
    """An error code as Kafka's documentation spells it."""
    return f"{error.name.upper()} ({error.value})"
