"""DescribeCluster v0-2: the cluster's id and its brokers. v1 can ask for controllers, which clients never reach here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.operations import EVERY_CLUSTER_OPERATION, UNKNOWN_OPERATIONS
from oncelog.broker.request import Request
from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from oncelog.broker.view import ClusterView

BROKERS, CONTROLLERS = 1, 2


class Needs(Protocol):
    """What this API needs of the broker."""

    view: ClusterView
    cluster_id: str


def handle(broker: Needs, request: Request) -> Any:
    endpoint_type = getattr(request.body, "endpoint_type", BROKERS)
    known = endpoint_type == BROKERS
    problem = (
        ErrorCode.mismatched_endpoint_type if endpoint_type == CONTROLLERS else ErrorCode.unsupported_endpoint_type
    )
    return request.answer(
        error_code=ErrorCode.none if known else problem,
        error_message=None if known else "only brokers can be asked for",
        endpoint_type=BROKERS,
        cluster_id=broker.cluster_id if known else "",
        controller_id=broker.view.controller_id if known else -1,
        cluster_authorized_operations=(
            EVERY_CLUSTER_OPERATION if request.body.include_cluster_authorized_operations else UNKNOWN_OPERATIONS
        ),
        brokers=tuple(
            construct(
                request.types.DescribeClusterBroker,
                broker_id=node.node_id,
                host=node.host,
                port=node.port,
                rack=node.rack,
                is_fenced=False,
            )
            for node in (broker.view.at(request.connection.listener).brokers() if known else ())
        ),
    )
