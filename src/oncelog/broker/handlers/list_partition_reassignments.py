"""ListPartitionReassignments v0: none, for there is no other broker that a partition could be on its way to."""

from __future__ import annotations

from typing import Any

from oncelog.broker.request import Request
from oncelog.wire import ErrorCode


def handle(request: Request) -> Any:
    return request.answer(error_code=ErrorCode.none, error_message=None, topics=())
