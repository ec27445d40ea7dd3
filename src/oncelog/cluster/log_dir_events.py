"""Telling the controller of a log directory that has failed: it asks for every replica then, and hears which are offline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.cluster.asking import SessionEndedError, ask
from oncelog.cluster.zookeeper.session import Create
from oncelog.cluster.zookeeper.znodes import encode_log_dir_event, paths
from oncelog.coordination import sleep, start

if TYPE_CHECKING:
    from oncelog.cluster.zookeeper.session import ZooKeeper
    from oncelog.environment import Clock


class LogDirEvents:
    """As Kafka's KafkaZkClient.propagateLogDirEvent (KIP-112). A single log that is damaged is told in the same way."""

    def __init__(self, zookeeper: ZooKeeper, clock: Clock, node_id: int) -> None:
        self._zookeeper = zookeeper
        self._clock = clock
        self._node_id = node_id
        self._is_due = False

    def tell(self) -> None:
        """One notification for all replicas that go offline at once."""
        if not self._is_due:
            self._is_due = True
            start(self._tell())

    async def _tell(self) -> None:
        await sleep(self._clock, 0)
        self._is_due = False
        event = Create(paths.LOG_DIR_EVENT, encode_log_dir_event(self._node_id), is_sequential=True)
        try:
            await ask(self._zookeeper, event)
        except SessionEndedError:
            # Whoever registers anew is asked for all its replicas anyway.
            return
