"""UpdateFeatures v0-1 in a cluster: as over ZooKeeper no broker supports a feature (KIP-584), each update is refused.

With the words of Apache Kafka 3.9, whose controller looks at one update after the other: KafkaController.validateFeatureUpdate.
"""

from __future__ import annotations

from typing import Any

from oncelog.broker.features import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, upgrade_type
from oncelog.broker.request import Request
from oncelog.cluster.controller.controller import Controller
from oncelog.wire import ErrorCode

NOT_CONTROLLER = "This is not the correct controller for this cluster."


def handle(request: Request, controller: Controller) -> Any:
    if not controller.is_active:
        return request.answer(error_code=ErrorCode.not_controller, error_message=NOT_CONTROLLER, results=())
    updates = {update.feature: update for update in request.body.feature_updates}
    results = tuple(
        request.types.UpdatableFeatureResult(
            feature=name, error_code=ErrorCode.invalid_request, error_message=_problem(update)
        )
        for name, update in updates.items()
    )
    return request.answer(error_code=ErrorCode.none, error_message=None, results=results)


def _problem(update: Any) -> str:
    kind = upgrade_type(update)
    level = update.max_version_level
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "Received unknown upgrade type."
    if not update.feature:
        return "Feature name can not be empty."
    if level >= 1:
        return "Could not apply finalized feature update because the provided feature is not supported."
    if kind == UPGRADE:
        return (
            f"Can not provide versionLevel: {level} less than 1 without setting the SAFE downgradeType in the request."
        )
    return "Can not delete non-existing finalized feature."
