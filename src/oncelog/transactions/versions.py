"""The error codes for older clients: the coordinator's errors, by API version.

The coordinator has one error for each situation. PRODUCER_FENCED (90) and TRANSACTION_ABORTABLE (120) came late, and
older clients do not know them. The coordinator's own errors must not reach a producer that asked a leader.
"""

from __future__ import annotations

from oncelog.wire import ErrorCode

INIT_PRODUCER_ID_FENCED_VERSION = 4
TRANSACTION_FENCED_VERSION = 2
PRODUCE_ABORTABLE_VERSION = 11
PRODUCE_ADDS_PARTITIONS_VERSION = 12
OFFSET_COMMIT_ABORTABLE_VERSION = 4
OFFSET_COMMIT_ADDS_PARTITIONS_VERSION = 5
OFFSET_COMMIT_GROUP_NOT_FOUND_VERSION = 6
OFFSET_COMMIT_LOADING_VERSION = 2
END_ABORTABLE_VERSION = 4
END_BUMPS_VERSION = 5

_NONE = ErrorCode.none
_COORDINATOR_AWAY = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)


def init_producer_id_error(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.producer_fenced and version < INIT_PRODUCER_ID_FENCED_VERSION:
        return ErrorCode.invalid_producer_epoch
    return error


def transaction_error(error: ErrorCode, version: int) -> ErrorCode:
    """For AddPartitionsToTxn, AddOffsetsToTxn and EndTxn, which alone may be told to abort."""
    if error is _NONE:
        return error
    if error is ErrorCode.transaction_abortable and version < END_ABORTABLE_VERSION:
        # What clients of those days take as a reason to abort (KIP-360).
        return ErrorCode.invalid_producer_id_mapping
    if error is ErrorCode.producer_fenced and version < TRANSACTION_FENCED_VERSION:
        return ErrorCode.invalid_producer_epoch
    return error


def end_bumps_epoch(version: int) -> bool:
    """True if EndTxn of this version asks for an epoch per transaction."""
    return version >= END_BUMPS_VERSION


def produce_adds_partitions(version: int) -> bool:
    """True if Produce of this version leaves it to the broker to add its partitions to the transaction."""
    return version >= PRODUCE_ADDS_PARTITIONS_VERSION


def offset_commit_adds_partitions(version: int) -> bool:
    """True if TxnOffsetCommit of this version leaves it to the broker to add the group to the transaction."""
    return version >= OFFSET_COMMIT_ADDS_PARTITIONS_VERSION


def produce_error(error: ErrorCode, version: int) -> ErrorCode:
    """The error of a transactional batch that `verify` or `add_partitions` refused."""
    if error is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if error is ErrorCode.transaction_abortable and version < PRODUCE_ABORTABLE_VERSION:
        return ErrorCode.invalid_txn_state
    if error is ErrorCode.concurrent_transactions and version < PRODUCE_ADDS_PARTITIONS_VERSION:
        return ErrorCode.not_enough_replicas
    return ErrorCode.not_enough_replicas if error in _COORDINATOR_AWAY else error


def transactional_offset_commit_error(error: ErrorCode, version: int) -> ErrorCode:
    """The error of TxnOffsetCommit for an error of either coordinator."""
    if error is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if error is ErrorCode.transaction_abortable and version < OFFSET_COMMIT_ABORTABLE_VERSION:
        return ErrorCode.invalid_txn_state
    if error is ErrorCode.group_id_not_found and version < OFFSET_COMMIT_GROUP_NOT_FOUND_VERSION:
        return ErrorCode.illegal_generation
    if error is ErrorCode.network_exception:
        error = ErrorCode.coordinator_load_in_progress
    if error is ErrorCode.coordinator_load_in_progress and version < OFFSET_COMMIT_LOADING_VERSION:
        return ErrorCode.coordinator_not_available
    return error
