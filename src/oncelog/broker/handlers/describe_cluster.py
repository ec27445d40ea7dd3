"""DescribeCluster v0-2: the cluster's id and its one broker. v1 can ask for controllers, which clients never reach here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.request import Request
from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

BROKERS = 1


def handle(broker: Broker, request: Request) -> Any:
    endpoint_type = getattr(request.body, "endpoint_type", BROKERS)
    known = endpoint_type == BROKERS
    return request.answer(
        error_code=ErrorCode.none if known else ErrorCode.unsupported_endpoint_type,
        error_message=None if known else "only brokers can be asked for, not controllers",
        endpoint_type=endpoint_type,
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        brokers=(
            construct(
                request.types.DescribeClusterBroker,
                broker_id=broker.node_id,
                host=broker.host,
                port=broker.port,
                rack=None,
                is_fenced=False,
            ),
        )
        if known
        else (),
    )
