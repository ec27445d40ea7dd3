"""The real ZooKeeper: sessions with an ensemble of servers, on the event loop.

The bytes are kazoo's, the conversation is not. kazoo's client hands requests from thread to thread, so that one which was
handed in under a session that has expired may be carried out in the next; it forgets the watches when a connection breaks; and
it does not notice a dead link as long as it has something to send.
"""

from importlib.util import find_spec

if find_spec("kazoo") is None:
    raise ImportError("zookeeper.connect needs kazoo: pip install 'oncelog[cluster]'", name="kazoo")

from oncelog.server.zookeeper.client import Ensemble, RealZooKeeper, ZooKeeperUnreachableError, parse_ensemble

__all__ = ["Ensemble", "RealZooKeeper", "ZooKeeperUnreachableError", "parse_ensemble"]
