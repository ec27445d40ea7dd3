"""What a client is told when the log of a coordinator does not take what it asked for."""

from __future__ import annotations

from oncelog.wire import ErrorCode

_TOO_LARGE = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large})


def told(error: ErrorCode) -> ErrorCode:
    """As Kafka's TransactionStateManager and CoordinatorOperationExceptionHelper say it: no record of the client is too large."""
    if error is ErrorCode.kafka_storage_error:
        return ErrorCode.not_coordinator
    return ErrorCode.unknown_server_error if error in _TOO_LARGE else error
