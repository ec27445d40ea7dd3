"""A model of ZooKeeper: one ensemble as one object, on the event queue and the network of a simulation.

It passes the tests that a real server passes. What it leaves out: access lists, quotas, and that a server other than the leader
may be behind, which a client never sees as long as it has one connection after another to servers that are not behind itself.
"""

from oncelog.simulation.cluster.zookeeper.client import SimulatedZooKeeper
from oncelog.simulation.cluster.zookeeper.ensemble import SimulatedEnsemble
from oncelog.simulation.cluster.zookeeper.link import ENSEMBLE

__all__ = ["ENSEMBLE", "SimulatedEnsemble", "SimulatedZooKeeper"]
