"""Asking a transaction's or a group's coordinator until its answer is definite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oncelog.client.errors import (
    RETRIABLE,
    STALE_COORDINATOR,
    AuthenticationFailed,
    BrokerRefused,
    ClientError,
    ConnectionLost,
    RetriesExhausted,
    broker_refusal,
)
from oncelog.client.net.cluster import Cluster, CoordinatorKind, ErrorOf, last_cause
from oncelog.client.net.flows import ask, was_sent
from oncelog.client.net.retry import BUSY
from oncelog.client.net.rights import missing_right
from oncelog.client.requests import ApiRequest
from oncelog.wire import ErrorCode

NEW_TOPIC_TIMEOUT_MS = 5_000
"""Time for a new topic to become known to the coordinator."""
MAY_BE_WRITTEN = STALE_COORDINATOR | {ErrorCode.unknown_server_error}
"""Errors of a coordinator that may have written the record all the same, and led no more when replicas were to have it.

So Kafka's TransactionStateManager does: it makes NOT_COORDINATOR and COORDINATOR_NOT_AVAILABLE of the errors of such an
append. The next coordinator may find the record in its log.
"""


@dataclass(frozen=True, slots=True)
class CoordinatorReply:
    """The outcome of a request to a coordinator.

    `error` is None when no definite answer came in time. `doubtful` says that the request may have been carried out
    more often than it was answered. `right` is the one that is missing, where the error is about rights.
    """

    error: ErrorCode | None
    message: Any
    doubtful: bool
    cause: ClientError | None
    right: str | None = None


async def ask_coordinator(
    cluster: Cluster, kind: CoordinatorKind, key: str, request: ApiRequest, error_of: ErrorOf
) -> CoordinatorReply:
    """Ask a coordinator until its answer is definite or the time is over."""
    call_timeout_ms = cluster.settings.call_timeout_ms
    retries = await cluster.retries(call_timeout_ms)
    new_topic_retries = await cluster.retries(min(call_timeout_ms, NEW_TOPIC_TIMEOUT_MS))
    doubtful = False
    cause: ClientError | None = None
    while True:
        policy = cluster.settings.retry
        try:
            address = await cluster.coordinator(kind, key, retries)
            message = await ask(address, request, await cluster.answer_timeout_ms(retries))
        except ConnectionLost as lost:
            cause = await last_cause(retries, cause, lost)
            doubtful = doubtful or was_sent(lost)
            cluster.forget_coordinator(kind, key)
        except RetriesExhausted as error:
            cause = error
            cluster.forget_coordinator(kind, key)
        except BrokerRefused as refused:
            return CoordinatorReply(refused.error, None, doubtful, refused, refused.right)
        except AuthenticationFailed as refused:
            if doubtful:
                return CoordinatorReply(None, None, doubtful, refused)
            raise
        else:
            code = error_of(message)
            if code not in RETRIABLE and code is not ErrorCode.unknown_server_error:
                return CoordinatorReply(code, message, doubtful, None, missing_right(request, code))
            cause = broker_refusal(code, request.api.name)
            doubtful = doubtful or code in MAY_BE_WRITTEN
            if code in STALE_COORDINATOR:
                cluster.forget_coordinator(kind, key)
            elif code is ErrorCode.unknown_topic_or_partition:
                if not await new_topic_retries.pause():
                    return CoordinatorReply(code, message, doubtful, cause)
                continue
            elif code is ErrorCode.concurrent_transactions:
                policy = BUSY
        if not await retries.pause(policy):
            return CoordinatorReply(None, None, doubtful, cause)
