"""Collects the records and the answers of one decision about a classic group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from oncelog.coordination import Decision, Promise
from oncelog.coordination.decision import nothing_to_remember
from oncelog.groups.classic.group import ClassicGroup
from oncelog.groups.classic.member import GroupAnswer, JoinAnswer, LeaveAnswer, SyncAnswer
from oncelog.groups.classic.metadata import GroupMetadataRecord, GroupMetadataValue
from oncelog.groups.context import Timestamps
from oncelog.wire import ErrorCode

Answer = TypeVar("Answer", JoinAnswer, SyncAnswer, LeaveAnswer)


class PendingResponse(NamedTuple):
    """An answer, and who waits for it."""

    reply: Promise[Any]
    answer: GroupAnswer

    def give(self, error: ErrorCode = ErrorCode.none) -> None:
        """`error`: what kept the records of the decision from being kept."""
        self.reply.resolve(self.answer if error is ErrorCode.none else self.answer.with_error(error))


MembershipDecision = Decision[GroupMetadataRecord, tuple[PendingResponse, ...]]
"""Its answers are given once its records are written and replayed."""


class DecisionBuilder:
    """Collects what a decision is made of."""

    __slots__ = ("_due", "_records", "now")

    def __init__(self, now: Timestamps) -> None:
        self.now = now
        self._records: list[GroupMetadataRecord] = []
        self._due: list[PendingResponse] = []

    def record(self, group: ClassicGroup, metadata: GroupMetadataValue) -> None:
        self._records.append(GroupMetadataRecord(group.name, metadata, self.now.wall_ms))
        group.apply(metadata)

    def answer(self, reply: Promise[Answer], answer: Answer) -> None:
        self._due.append(PendingResponse(reply, answer))

    def decision(self, remember: Callable[[], None] = nothing_to_remember) -> MembershipDecision:
        return Decision(tuple(self._records), tuple(self._due), remember)
