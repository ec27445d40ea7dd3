"""SaslHandshake v0-1 on a connection that is served already: there is nothing more to show. See `broker/authentication.py`."""

from __future__ import annotations

from typing import Any

from oncelog.broker.request import Request
from oncelog.wire import ErrorCode


def handle(request: Request) -> Any:
    return request.answer(error_code=ErrorCode.illegal_sasl_state, mechanisms=())
