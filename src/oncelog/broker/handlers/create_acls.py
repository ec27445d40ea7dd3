"""CreateAcls v1-3: each is answered SECURITY_DISABLED, as by a broker of Kafka without an authorizer."""

from __future__ import annotations

from typing import Any

from oncelog.broker.request import Request
from oncelog.wire import ErrorCode


def handle(request: Request) -> Any:
    refused = request.types.AclCreationResult(
        error_code=ErrorCode.security_disabled, error_message="No Authorizer is configured."
    )
    return request.answer(results=(refused,) * len(request.body.creations))
