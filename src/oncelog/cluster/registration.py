"""This broker's entry among the live ones (`/brokers/ids/<id>`): it is there as long as its session with ZooKeeper is."""

from __future__ import annotations

import logging

from oncelog.cluster.asking import SessionEndedError, ask, catch_up
from oncelog.cluster.zookeeper.session import Create, Data, Delete, GetData, Multi, SetData, ZooKeeper
from oncelog.coordination import sleep
from oncelog.environment import Clock

logger = logging.getLogger("oncelog.broker")

NO_EPOCH = -1
PAUSE_MS = 100


class Registration:
    """`epoch` tells this life of the broker from earlier ones: it is the czxid of the entry. -1 while there is none."""

    def __init__(self, zookeeper: ZooKeeper, clock: Clock, path: str, entry: bytes) -> None:
        self._zookeeper = zookeeper
        self._clock = clock
        self._path = path
        self._entry = entry
        self._own_sessions: set[int] = set()
        self.epoch = NO_EPOCH

    async def register(self) -> None:
        """Be among the live brokers from now on. Raises SessionEndedError.

        The entry of an earlier life goes with its session, and is waited for; an own one of an earlier session is deleted.
        """
        has_waited = False
        while not await self._create():
            if not has_waited:
                logger.info("%s is there already: waiting until the session that made it has ended", self._path)
                has_waited = True
            await sleep(self._clock, PAUSE_MS)
        logger.info("broker is registered as %s with epoch %d", self._path, self.epoch)

    async def renew(self) -> None:
        """Have another epoch, so that the controller tells everything anew. Raises SessionEndedError."""
        found = await ask(self._zookeeper, GetData(self._path))
        if isinstance(found, Data) and found.stat.ephemeral_owner == self._zookeeper.session_id:
            await ask(self._zookeeper, Delete(self._path, found.stat.version))
        await self.register()

    async def is_epoch(self, epoch: int) -> bool:
        """Whether ZooKeeper, asked again, has this epoch for this broker: others may hear of a new entry first."""
        try:
            if not await catch_up(self._zookeeper):
                return False
            found = await ask(self._zookeeper, GetData(self._path))
        except SessionEndedError:
            return False
        if not isinstance(found, Data) or found.stat.ephemeral_owner != self._zookeeper.session_id:
            return False
        return found.stat.czxid == epoch

    async def _create(self) -> bool:
        self._own_sessions.add(self._zookeeper.session_id)
        create = Create(self._path, b"", is_ephemeral=True)
        # Kafka's brokers do it in these two steps, and so the entry of a new one has version 1.
        await ask(self._zookeeper, Multi((create, SetData(self._path, self._entry))))
        # Whether it was done now, or before a connection was lost: what counts is whose it is.
        found = await ask(self._zookeeper, GetData(self._path))
        if not isinstance(found, Data):
            return False
        owner = found.stat.ephemeral_owner
        if owner == self._zookeeper.session_id:
            self.epoch = found.stat.czxid
            return True
        if owner in self._own_sessions:
            await ask(self._zookeeper, Delete(self._path, found.stat.version))
        return False
