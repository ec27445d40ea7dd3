"""SaslAuthenticate v0-2 on a connection that is served already. See `broker/authentication.py`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from oncelog.broker.request import Request
from oncelog.wire import ErrorCode


def handle(request: Request) -> Any:
    return request.answer(
        error_code=ErrorCode.illegal_sasl_state,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
        session_lifetime=timedelta(0),
    )
