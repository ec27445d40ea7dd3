"""For tests of users: a real broker, a real cluster, and a proxy that breaks connections where the test says."""

from oncelog.server.member_process import MemberError
from oncelog.testing.local_broker import RunningBroker, broker
from oncelog.testing.local_cluster import ClusterBroker, RunningCluster, cluster

__all__ = ["ClusterBroker", "MemberError", "RunningBroker", "RunningCluster", "broker", "cluster"]
