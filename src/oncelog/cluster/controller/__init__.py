"""The controller of a cluster, as Kafka 3.9's in ZooKeeper mode.

`controller.py` takes part in the election and is what brokers and clients ask; `term.py` is one time of being the controller and
serves one event after the other. What an event does is a flow over `context.py`: `brokers.py`, `topics.py`, `partitions.py`,
`replicas.py`, `reassignment.py`, `leader_elections.py`, `alter_partition.py`. It writes and sends by `actions.py` alone.
"""
