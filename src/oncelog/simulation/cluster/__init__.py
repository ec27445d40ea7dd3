"""A cluster on a seed: real brokers, each on its own disk, over a ZooKeeper and a network that the seed decides."""

from oncelog.simulation.cluster.simulation import ClusterSimulation

__all__ = ["ClusterSimulation"]
