"""DescribeAcls v1-3: answered SECURITY_DISABLED, as by a broker of Kafka without an authorizer: everybody may do everything."""

from __future__ import annotations

from typing import Any

from oncelog.broker.request import Request
from oncelog.wire import ErrorCode


def handle(request: Request) -> Any:
    return request.answer(
        error_code=ErrorCode.security_disabled, error_message="No Authorizer is configured on the broker", resources=()
    )
