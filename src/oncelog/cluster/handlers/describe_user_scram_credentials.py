"""DescribeUserScramCredentials v0 in a cluster: which users of SCRAM ZooKeeper has, never their keys. Every broker serves it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from oncelog.broker.request import Request
from oncelog.cluster.controller.values import ApiError
from oncelog.cluster.scram_users import NUMBERS, TIMED_OUT, ClusterScramUsers
from oncelog.cluster.zookeeper.asking import SessionEndedError
from oncelog.security.values import Scram
from oncelog.wire import ErrorCode

FOUND = ApiError(ErrorCode.none, "")


async def handle(request: Request, cluster_scram_users: ClusterScramUsers) -> Any:
    asked = [one.name for one in request.body.users or ()]
    counts = Counter(asked)
    try:
        found = await (cluster_scram_users.of(list(counts)) if asked else cluster_scram_users.all())
    except SessionEndedError:
        return request.answer(error_code=TIMED_OUT.code, error_message=TIMED_OUT.message, results=())
    results = tuple(_result(request, name, found.get(name, {}), counts[name]) for name in counts or found)
    return request.answer(error_code=ErrorCode.none, error_message="", results=results)


def _result(request: Request, name: str, mechanisms: Mapping[Scram, int], asked: int) -> Any:
    types = request.types
    outcome = _outcome(name, mechanisms, asked)
    infos = tuple(
        types.CredentialInfo(mechanism=NUMBERS[mechanism], iterations=iterations)
        for mechanism, iterations in mechanisms.items()
    )
    return types.DescribeUserScramCredentialsResult(
        user=name,
        error_code=outcome.code,
        error_message=outcome.message,
        credential_infos=infos if outcome is FOUND else (),
    )


def _outcome(name: str, mechanisms: Mapping[Scram, int], asked: int) -> ApiError:
    if asked > 1:
        said = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return ApiError(ErrorCode.duplicate_resource, said)
    if not name:
        return ApiError(ErrorCode.resource_not_found, "Username must not be empty")
    if not mechanisms:
        said = f"Attempt to describe a user credential that does not exist: {name}"
        return ApiError(ErrorCode.resource_not_found, said)
    return FOUND
