"""AlterPartition v2-3: the leader of a partition asks the controller for another in-sync set (KIP-497).

v2 names topics by id; v3 has the epochs of the members' brokers, as far as the leader knows them (KIP-903).
"""

from __future__ import annotations

from typing import Any

from oncelog.broker.request import Request
from oncelog.cluster.controller import handlers as controller_handlers
from oncelog.cluster.controller.controller import Controller
from oncelog.wire import ErrorCode


def handle(request: Request, controller: Controller) -> Any:
    return controller_handlers.alter_partition(controller, request.version, request.body)


def refusal(request: Request, error: ErrorCode) -> Any:
    return request.answer(error_code=error, topics=())
