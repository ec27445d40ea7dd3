"""ControlledShutdown v2-3: a broker that is about to stop has the controller hand on what it leads."""

from __future__ import annotations

from typing import Any

from oncelog.broker.request import Request
from oncelog.cluster.controller import handlers as controller_handlers
from oncelog.cluster.controller.controller import Controller
from oncelog.wire import ErrorCode


def handle(request: Request, controller: Controller) -> Any:
    return controller_handlers.controlled_shutdown(controller, request.version, request.body)


def refusal(request: Request, error: ErrorCode) -> Any:
    return request.answer(error_code=error, remaining_partitions=())
