"""AlterUserScramCredentials v0 in a cluster: the controller's broker writes users of SCRAM into ZooKeeper (KIP-554).

What is asked for one user is done as a whole, or not at all.
"""

from __future__ import annotations

from typing import Any

from oncelog.broker.request import Request
from oncelog.cluster.controller.controller import Controller
from oncelog.cluster.controller.values import ApiError
from oncelog.cluster.scram_users import ClusterScramUsers, CredentialChange, NewCredential
from oncelog.wire import ErrorCode

ALTERED = ApiError(ErrorCode.none, "")
NOT_CONTROLLER = ApiError(ErrorCode.not_controller)


async def handle(request: Request, cluster_scram_users: ClusterScramUsers, controller: Controller) -> Any:
    changes: dict[str, list[CredentialChange]] = {}
    for one in request.body.upsertions:
        new = NewCredential(one.iterations, bytes(one.salt), bytes(one.salted_password))
        changes.setdefault(one.name, []).append(CredentialChange(one.mechanism, new))
    for one in request.body.deletions:
        changes.setdefault(one.name, []).append(CredentialChange(one.mechanism, None))
    outcomes = {}
    for user, wanted in changes.items():
        # Another broker may be the controller by now.
        is_here = controller.is_active
        outcomes[user] = (await cluster_scram_users.change(user, wanted) or ALTERED) if is_here else NOT_CONTROLLER
    types = request.types
    return request.answer(
        results=tuple(
            types.AlterUserScramCredentialsResult(user=user, error_code=outcome.code, error_message=outcome.message)
            for user, outcome in outcomes.items()
        )
    )
