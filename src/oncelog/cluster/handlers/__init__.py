"""Handlers of a member of a cluster, whose metadata is ZooKeeper's."""
