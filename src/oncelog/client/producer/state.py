"""The states of a producer."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ProducerPhase(Enum):
    """The names are those of Kafka's own producer. FATAL_ERROR is final; ABORTABLE_ERROR ends with an abort."""

    UNINITIALIZED = "uninitialized"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    COMMITTING_TRANSACTION = "committing"
    ABORTING_TRANSACTION = "aborting"
    ABORTABLE_ERROR = "failed, to be aborted"
    FATAL_ERROR = "failed for good"


S = ProducerPhase

TRANSITIONS: Mapping[ProducerPhase, frozenset[ProducerPhase]] = {
    S.UNINITIALIZED: frozenset({S.READY, S.FATAL_ERROR}),
    S.READY: frozenset({S.IN_TRANSACTION, S.FATAL_ERROR}),
    S.IN_TRANSACTION: frozenset({S.COMMITTING_TRANSACTION, S.ABORTING_TRANSACTION, S.ABORTABLE_ERROR, S.FATAL_ERROR}),
    S.COMMITTING_TRANSACTION: frozenset({S.READY, S.ABORTABLE_ERROR, S.FATAL_ERROR}),
    S.ABORTING_TRANSACTION: frozenset({S.READY, S.FATAL_ERROR}),
    S.ABORTABLE_ERROR: frozenset({S.ABORTABLE_ERROR, S.ABORTING_TRANSACTION, S.FATAL_ERROR}),
    S.FATAL_ERROR: frozenset({S.FATAL_ERROR}),
}
