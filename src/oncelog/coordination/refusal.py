"""What a client is told when the log of a coordinator does not take what it asked for."""

from __future__ import annotations

from oncelog.wire import ErrorCode

# As Kafka's TransactionStateManager and CoordinatorOperationExceptionHelper say it: no record of the client is too large.
_TOLD = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}


def told(error: ErrorCode) -> ErrorCode:
    return _TOLD.get(error, error)
