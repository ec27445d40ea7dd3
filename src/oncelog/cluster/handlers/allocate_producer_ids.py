"""AllocateProducerIds v0: a broker asks the controller for a block of producer ids (KIP-730)."""

from __future__ import annotations

from typing import Any

from oncelog.broker.request import Request
from oncelog.cluster.controller import handlers as controller_handlers
from oncelog.cluster.controller.controller import Controller
from oncelog.wire import ErrorCode


def handle(request: Request, controller: Controller) -> Any:
    return controller_handlers.allocate_producer_ids(controller, request.version, request.body)


def refusal(request: Request, error: ErrorCode) -> Any:
    return request.answer(error_code=error, producer_id_start=0, producer_id_len=0)
