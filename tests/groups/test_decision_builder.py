"""Answers that are due, whatever becomes of the records that they wait for."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.coordination import Promise
from oncelog.groups.classic import GroupAnswer, JoinAnswer, LeaveAnswer, PendingResponse, SyncAnswer
from oncelog.groups.consumer import HeartbeatAnswer
from oncelog.wire import ErrorCode

JOINED = JoinAnswer(member_id="m", generation=3)
SYNCED = SyncAnswer(protocol="range", assignment=b"all")
LEFT = LeaveAnswer((ErrorCode.none,))
HEARD = HeartbeatAnswer(member_id="m", member_epoch=4)


@pytest.mark.parametrize("answer", [JOINED, SYNCED, LEFT, HEARD], ids=lambda answer: type(answer).__name__)
def test_answer_of_what_was_not_recorded_differs_in_its_error_alone(answer: GroupAnswer) -> None:
    reply: Promise[Any] = Promise()
    PendingResponse(reply, answer).give(ErrorCode.not_coordinator)
    told = reply.value
    assert told.error is ErrorCode.not_coordinator
    assert told.with_error(ErrorCode.none) == answer
    assert type(told) is type(answer)


@pytest.mark.parametrize("answer", [JOINED, SYNCED, LEFT, HEARD], ids=lambda answer: type(answer).__name__)
def test_answer_of_what_was_recorded_is_given_as_it_is(answer: GroupAnswer) -> None:
    reply: Promise[GroupAnswer] = Promise()
    PendingResponse(reply, answer).give()
    assert reply.value is answer
