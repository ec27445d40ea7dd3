"""UpdateFeatures v0-2: sets the level of protocol features (KIP-584); v1 knows safe and unsafe downgrades and validation.

At the levels 0 and 1 of `transaction.version` producers that go by it have one epoch for many transactions. A request of
theirs that is newer than the level is served all the same. At level 0 of `group.version` groups have the classic protocol
alone. One wrong update refuses them all.
"""

from __future__ import annotations

from typing import Any

from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.features import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, FinalizedFeatures, upgrade_type
from oncelog.broker.request import Request
from oncelog.broker.storage.journal import Change, Changes, FeatureFinalized
from oncelog.wire import ErrorCode


async def handle(request: Request, changes: Changes, features: FinalizedFeatures, transactions: Transactions) -> Any:
    def carry_out(changed: dict[str, int]) -> None:
        for name, level in changed.items():
            features.finalize(name, level)
        transactions.coordinator.transaction_version = features.transaction_version

    def decide() -> Change[str | None]:
        levels = dict(features.levels)
        for update in request.body.feature_updates:
            problem = _problem(features, levels.get(update.feature, 0), update)
            if problem is not None:
                return Change.none(f"{update.feature or 'a feature without a name'}: {problem}; no feature was changed")
            levels[update.feature] = update.max_version_level
        changed = {name: level for name, level in levels.items() if features.levels.get(name) != level}
        if getattr(request.body, "validate_only", False):
            return Change.none(None)
        return Change(
            [FeatureFinalized(name=name, level=level) for name, level in changed.items()],
            lambda: carry_out(changed),
        )

    return _answer(request, await changes.make(decide))


def _problem(features: FinalizedFeatures, level: int, update: Any) -> str | None:
    wanted = update.max_version_level
    highest = features.highest.get(update.feature)
    if highest is None:
        return "there is no such feature"
    if not 0 <= wanted <= highest:
        return f"level {wanted} is not one of 0 to {highest}"
    kind = upgrade_type(update)
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"there is no upgrade of type {kind}"
    if wanted < level and kind == UPGRADE:
        return f"level {wanted} is lower than {level}, which only a downgrade may make it"
    if wanted > level and kind != UPGRADE:
        return f"level {wanted} is higher than {level}, which no downgrade makes it"
    return None


def _answer(request: Request, refusal: str | None) -> Any:
    if refusal is not None:
        return request.answer(error_code=ErrorCode.invalid_update_version, error_message=refusal, results=())
    results: tuple[Any, ...] = ()
    if request.version < 2:
        results = tuple(
            request.types.UpdatableFeatureResult(feature=update.feature, error_code=ErrorCode.none, error_message=None)
            for update in request.body.feature_updates
        )
    return request.answer(error_code=ErrorCode.none, error_message=None, results=results)
