"""Whether this broker is among the live ones, as far as it can know: only then it leads, and takes orders of the controller."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from oncelog.broker.cluster.asking import SessionEndedError
from oncelog.broker.cluster.registration import NO_EPOCH, Registration
from oncelog.coordination import Parked, Task, start
from oncelog.wire import ErrorCode
from oncelog.zookeeper.session import ZooKeeperSessionState

if TYPE_CHECKING:
    from oncelog.environment import Clock, Timer

logger = logging.getLogger("oncelog.broker")


class BrokerState(Enum):
    STARTING = "it is not registered yet"
    RUNNING = "it is registered"
    FENCED = "it has no session with ZooKeeper, or none that it knows of"
    REGISTERING = "it has a session again, and is registered anew"


STARTING, RUNNING, FENCED, REGISTERING = BrokerState
TRANSITIONS: dict[tuple[BrokerState, BrokerState], str] = {
    (STARTING, RUNNING): "its entry is in ZooKeeper",
    (RUNNING, FENCED): "its session has expired, or it has not heard from ZooKeeper for as long as a session lasts",
    (FENCED, FENCED): "its session expires after a silence",
    (FENCED, REGISTERING): "there is a session again",
    (REGISTERING, RUNNING): "its new entry is in ZooKeeper",
    (REGISTERING, FENCED): "the session was lost meanwhile",
}


class Liveness:
    """Hears of the session, and keeps the broker's entry. `on_fenced` has to see to it that the broker leads nothing any more;
    `on_registered` is called each time there is a new entry.
    """

    def __init__(
        self,
        clock: Clock,
        registration: Registration,
        session_timeout_ms: int,
        on_fenced: Callable[[], None],
        on_registered: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._registration = registration
        self._session_timeout_ms = session_timeout_ms
        self._on_fenced = on_fenced
        self._on_registered = on_registered
        self._state = STARTING
        self._registered: Parked[None] = Parked()
        self._silence: Timer | None = None
        self._renewing: Task[None] | None = None

    @property
    def epoch(self) -> int:
        """This broker's epoch; -1 before it has one."""
        return self._registration.epoch

    async def register(self) -> None:
        """Be among the live brokers for the first time, in whichever session that comes about."""
        while self._state is STARTING:
            try:
                await self._registration.register()
            except SessionEndedError:
                continue
            self._move(RUNNING)
        self._on_registered()
        self._registered.release(None)

    async def problem(self, broker_epoch: int) -> ErrorCode | None:
        """STALE_BROKER_EPOCH for an order that is for an earlier life of this broker, or one that is over (KIP-380).

        One that comes before there is an epoch waits: it may be for the entry that is just being made.
        """
        await self._registered
        if self._state is RUNNING:
            is_over = broker_epoch != NO_EPOCH and broker_epoch < self.epoch
        else:
            # The next entry may be known to the controller before it is known here.
            is_over = broker_epoch <= self.epoch
        return ErrorCode.stale_broker_epoch if is_over else None

    def session_changed(self, state: ZooKeeperSessionState) -> None:
        """Who has lost its session is dead for the others: what it led somebody else leads, or will.

        So is, as far as this broker can know, who has not heard from ZooKeeper for as long as a session lasts.
        """
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
        if self._state is STARTING:
            return
        match state:
            case ZooKeeperSessionState.EXPIRED:
                self._fence("its session with ZooKeeper has expired")
            case ZooKeeperSessionState.DISCONNECTED:
                self._silence = self._clock.call_later(self._session_timeout_ms, self._cut_off)
            case ZooKeeperSessionState.CONNECTED if self._state is FENCED:
                self._move(REGISTERING)
                self._renewing = start(self._renew())

    def _cut_off(self) -> None:
        self._silence = None
        self._fence("it has not heard from ZooKeeper for as long as a session lasts")

    def _fence(self, reason: str) -> None:
        logger.warning("this broker leads and follows nothing until it is registered again: %s", reason)
        self._end_renewing()
        self._move(FENCED)
        self._on_fenced()

    async def _renew(self) -> None:
        """It is ended before a session that expires ends it."""
        await self._registration.renew()
        self._move(RUNNING)
        self._on_registered()

    def _end_renewing(self) -> None:
        if self._renewing is not None:
            self._renewing.end()
            self._renewing = None

    def stop(self) -> None:
        self._end_renewing()
        if self._silence is not None:
            self._silence.cancel()

    def _move(self, state: BrokerState) -> None:
        assert (self._state, state) in TRANSITIONS, (self._state, state)
        self._state = state
