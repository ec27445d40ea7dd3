"""IncrementalAlterConfigs v0-1 in a cluster: changes single settings of topics and brokers in ZooKeeper. Every broker serves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.handlers.incremental_alter_configs import altered
from oncelog.broker.request import Request

if TYPE_CHECKING:
    from oncelog.cluster.altering import ClusterAlterations
    from oncelog.environment import Clock


class Needs(Protocol):
    """What this API needs of the broker."""

    alterations: ClusterAlterations
    clock: Clock


async def handle(broker: Needs, request: Request) -> Any:
    alter_one = broker.alterations.alter_one(validate_only=request.body.validate_only)
    return await altered(broker.clock, request, alter_one)
