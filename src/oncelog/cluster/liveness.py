"""This broker's entry in ZooKeeper (`/brokers/ids/<id>`), and whether it counts as alive.

The entry lasts as long as the session. Only a live broker leads partitions and follows the controller's requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from oncelog.cluster.zookeeper.asking import SessionEndedError, ask, catch_up
from oncelog.cluster.zookeeper.session import (
    Create,
    Data,
    Delete,
    GetData,
    Multi,
    SetData,
    ZooKeeper,
    ZooKeeperSessionState,
)
from oncelog.cluster.zookeeper.znodes import encode_log_dir_event, paths
from oncelog.coordination import Promise, Task, sleep, start
from oncelog.environment import Clock
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.cluster.zookeeper.session import ZooKeeper
    from oncelog.environment import Clock, Timer

logger = logging.getLogger("oncelog.broker")


NO_EPOCH = -1
PAUSE_MS = 100


class Registration:
    """The broker's entry. `epoch` is the entry's czxid, and differs at each start; -1 while there is none."""

    def __init__(self, zookeeper: ZooKeeper, clock: Clock, path: str, entry: bytes) -> None:
        self._zookeeper = zookeeper
        self._clock = clock
        self._path = path
        self._entry = entry
        self._own_sessions: set[int] = set()
        self.epoch = NO_EPOCH

    async def register(self) -> None:
        """Registers the broker. Raises SessionEndedError.

        The entry of an earlier life goes with its session, and is waited for; an own one of an earlier session is deleted.
        """
        has_waited = False
        while not await self._create():
            if not has_waited:
                logger.info("%s exists already: waiting for the end of the session that created it", self._path)
                has_waited = True
            await sleep(self._clock, PAUSE_MS)
        logger.info("broker is registered as %s with epoch %d", self._path, self.epoch)

    async def renew(self) -> None:
        """Registers with a new epoch, so that the controller sends the full state again. Raises SessionEndedError."""
        found = await ask(self._zookeeper, GetData(self._path))
        if isinstance(found, Data) and found.stat.ephemeral_owner == self._zookeeper.session_id:
            await ask(self._zookeeper, Delete(self._path, found.stat.version))
        await self.register()

    async def is_epoch(self, epoch: int) -> bool:
        """Checks in ZooKeeper that this is the broker's epoch: the controller may see a new entry first."""
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
        # It may have been created before a connection was lost: the owner decides.
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


class BrokerState(Enum):
    STARTING = "it is not registered yet"
    RUNNING = "it is registered"
    FENCED = "it has no session with ZooKeeper, or none that it knows of"
    REGISTERING = "it has a session again, and is registered anew"


STARTING, RUNNING, FENCED, REGISTERING = BrokerState
TRANSITIONS: dict[tuple[BrokerState, BrokerState], str] = {
    (STARTING, RUNNING): "its entry is in ZooKeeper",
    (
        RUNNING,
        FENCED,
    ): "its session has expired, or ZooKeeper may have heard nothing of it for as long as a session lasts",
    (FENCED, FENCED): "its session expires after a silence",
    (FENCED, REGISTERING): "there is a session again, or it may not be over",
    (REGISTERING, RUNNING): "its new entry is in ZooKeeper",
    (REGISTERING, FENCED): "the session was lost meanwhile",
}


class Liveness:
    """Keeps the broker's entry across sessions.

    `on_fenced` must stop the broker from leading; `on_registered` is called after each new entry.

    ZooKeeper ends a session that it has heard nothing of for the session timeout, whether or not the client knows. The time counts
    from when the last answered request was sent: ZooKeeper cannot have received it earlier.
    """

    def __init__(
        self,
        clock: Clock,
        registration: Registration,
        zookeeper: ZooKeeper,
        on_fenced: Callable[[], None],
        on_registered: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._registration = registration
        self._zookeeper = zookeeper
        self._on_fenced = on_fenced
        self._on_registered = on_registered
        self._state = STARTING
        self._registered: Promise[None] = Promise()
        self._end: Timer | None = None
        """Fires when the session may be over."""
        self._renewing: Task[None] | None = None

    @property
    def epoch(self) -> int:
        """This broker's epoch; -1 before it has one."""
        return self._registration.epoch

    @property
    def is_alive(self) -> bool:
        """True while no other broker can lead this broker's partitions. Reads the clock: after a pause no timer has fired."""
        return self._state is RUNNING and self._left_ms > 0

    @property
    def _left_ms(self) -> float:
        return self._zookeeper.session_timeout_ms - self._zookeeper.silence_ms

    async def register(self) -> None:
        """Registers the broker for the first time, across sessions."""
        while self._state is STARTING:
            try:
                await self._registration.register()
            except SessionEndedError:
                continue
            self._move(RUNNING)
        self._on_registered()
        self._registered.resolve(None)
        self._watch()

    async def problem(self, broker_epoch: int) -> ErrorCode | None:
        """STALE_BROKER_EPOCH for an order that is for an earlier life of this broker, or one that is over (KIP-380), or for none.

        One that comes before there is an epoch waits: it may be for the entry that is just being made.
        """
        await self._registered
        if self._state is RUNNING and broker_epoch == self.epoch:
            return None
        # The next entry may be known to the controller before it is known here.
        is_next = broker_epoch > self.epoch and await self._registration.is_epoch(broker_epoch)
        return None if is_next and broker_epoch >= self.epoch else ErrorCode.stale_broker_epoch

    def session_changed(self, state: ZooKeeperSessionState) -> None:
        """Fences the broker when its session expires: other brokers will lead its partitions.

        `_watch` fences it earlier, when ZooKeeper may have heard nothing of it for a session's timeout.
        """
        if self._state is STARTING:
            return
        if state is ZooKeeperSessionState.EXPIRED:
            self._fence("its session with ZooKeeper has expired")
        elif state is ZooKeeperSessionState.CONNECTED and self._state is FENCED:
            self._begin_renewing()

    def _watch(self) -> None:
        """Fences the broker when the session may be over, or checks again later."""
        left_ms = self._left_ms
        if left_ms > 0:
            self._end = self._clock.call_later(left_ms, self._watch)
            return
        self._end = None
        self._fence("ZooKeeper may have heard nothing of it for as long as a session lasts")
        # The session may be there still: after a pause of this process even the connection may be as it was.
        self._begin_renewing()

    def _fence(self, reason: str) -> None:
        logger.warning("this broker leads and follows nothing until it is registered again: %s", reason)
        self._end_renewing()
        self._stop_watching()
        self._move(FENCED)
        self._on_fenced()

    def _begin_renewing(self) -> None:
        self._move(REGISTERING)
        self._renewing = start(self._renew())

    async def _renew(self) -> None:
        """Registers again. `_fence` ends this task when the session expires."""
        await self._registration.renew()
        self._renewing = None
        self._move(RUNNING)
        self._on_registered()
        self._watch()

    def _end_renewing(self) -> None:
        if self._renewing is not None:
            self._renewing.end()
            self._renewing = None

    def _stop_watching(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None

    def stop(self) -> None:
        self._end_renewing()
        self._stop_watching()

    def _move(self, state: BrokerState) -> None:
        assert (self._state, state) in TRANSITIONS, (self._state, state)
        self._state = state


class LogDirEvents:
    """Notifies the controller of a failed log directory (KafkaZkClient.propagateLogDirEvent, KIP-112), or of a damaged log.

    The controller then sends LeaderAndIsr for every replica, and learns from the answer which are offline.
    """

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
            # A broker that registers again reports all its replicas anyway.
            return
