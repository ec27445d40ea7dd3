"""DescribeCluster v0-2: the cluster's id and its brokers. v1 can ask for controllers, which clients never reach here."""

from __future__ import annotations

from typing import Any

from oncelog.broker.access import EVERY_CLUSTER_OPERATION, UNKNOWN_OPERATIONS
from oncelog.broker.request import Request
from oncelog.broker.view import ClusterView
from oncelog.wire import ErrorCode, construct

BROKERS, CONTROLLERS = 1, 2


def handle(request: Request, cluster_id: str, view: ClusterView) -> Any:
    endpoint_type = getattr(request.body, "endpoint_type", BROKERS)
    known = endpoint_type == BROKERS
    problem = (
        ErrorCode.mismatched_endpoint_type if endpoint_type == CONTROLLERS else ErrorCode.unsupported_endpoint_type
    )
    return request.answer(
        error_code=ErrorCode.none if known else problem,
        error_message=None if known else "only brokers can be asked for",
        endpoint_type=BROKERS,
        cluster_id=cluster_id if known else "",
        controller_id=view.controller_id if known else -1,
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
            for node in (view.at(request.connection.listener).brokers() if known else ())
        ),
    )
