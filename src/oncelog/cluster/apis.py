"""The table of APIs of a broker that has others beside it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from oncelog.broker.apis import APIS, ClusterAction, ServedApi
from oncelog.broker.readiness import Readiness

_HANDLERS = "oncelog.cluster.handlers"

_BETWEEN_BROKERS = (
    ServedApi(4, "LeaderAndIsr", 5, 7, "leader_and_isr", Readiness.LOGS, ClusterAction.ALL, _HANDLERS),
    ServedApi(5, "StopReplica", 3, 4, "stop_replica", Readiness.LOGS, ClusterAction.ALL, _HANDLERS),
    ServedApi(6, "UpdateMetadata", 7, 8, "update_metadata", Readiness.LOGS, ClusterAction.ALL, _HANDLERS),
    ServedApi(7, "ControlledShutdown", 2, 3, "controlled_shutdown", Readiness.LOGS, ClusterAction.ALL, _HANDLERS),
    ServedApi(56, "AlterPartition", 2, 3, "alter_partition", Readiness.LOGS, ClusterAction.ALL, _HANDLERS),
    ServedApi(67, "AllocateProducerIds", 0, 0, "allocate_producer_ids", Readiness.LOGS, ClusterAction.ALL, _HANDLERS),
)
"""Requests between the brokers of a cluster, as of Kafka up to 3.9."""

_ONLY_IN_CLUSTER = (
    ServedApi(50, "DescribeUserScramCredentials", 0, 0, "describe_user_scram_credentials", package=_HANDLERS),
    ServedApi(51, "AlterUserScramCredentials", 0, 0, "alter_user_scram_credentials", package=_HANDLERS),
)
"""Requests that only a cluster member serves."""

_ALONE = (68, 69, 74, 75)
"""Requests that only a standalone broker serves."""

_OTHERWISE = (19, 20, 32, 37, 43, 45, 46, 57)
"""Requests with another handler of the same name in a cluster."""

_MAXIMUM_IN_CLUSTER = {45: 0, 57: 1}
"""Highest versions: later ones have features that a controller over ZooKeeper lacks."""


def _in_cluster(api: ServedApi) -> ServedApi:
    package = _HANDLERS if api.key in _OTHERWISE else api.package
    return api._replace(package=package, maximum=_MAXIMUM_IN_CLUSTER.get(api.key, api.maximum))


CLUSTER_APIS: Mapping[int, ServedApi] = MappingProxyType(
    {
        api.key: _in_cluster(api)
        for api in sorted((*APIS.values(), *_BETWEEN_BROKERS, *_ONLY_IN_CLUSTER), key=lambda api: api.key)
        if api.key not in _ALONE
    }
)
"""The APIs of a cluster member."""
