"""Settings that all brokers of a cluster share, kept in ZooKeeper: a broker without one of them takes the cluster's value.

Kafka has no such place: a broker that was configured without one acknowledges with fewer copies than the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from oncelog.broker.config.setting import SettingError, text_of
from oncelog.broker.config.settings import BROKER_SETTINGS
from oncelog.broker.config.shared_settings import AGREED, SHARED, without_other_names
from oncelog.cluster.zookeeper.asking import SessionEndedError, ask, read_each
from oncelog.cluster.zookeeper.session import (
    Children,
    Create,
    Data,
    Done,
    GetChildren,
    GetData,
    SetData,
    ZooKeeperSessionState,
)
from oncelog.cluster.zookeeper.znodes import ZnodeError, decode_shared_settings, encode_config, paths
from oncelog.coordination import sleep, start

if TYPE_CHECKING:
    from oncelog.broker.config.setting import Value
    from oncelog.cluster.zookeeper.session import Watched, ZooKeeper
    from oncelog.cluster.zookeeper.watches import Watchers
    from oncelog.environment import Clock

logger = logging.getLogger("oncelog.broker")

PAUSE_MS = 100
LISTENER = "inter.broker.listener.name"
"""The inter-broker listener's name must be the same everywhere. Each broker configures its own listener, so it is only compared."""


class Stored(NamedTuple):
    """The shared settings in ZooKeeper, and the version of their znode."""

    values: Mapping[str, str]
    version: int


class SettingsAgreement:
    """`agree` at a start; from then on this broker takes what others say of settings that a cluster has one value of.

    `take` has the settings that count beside what this broker was told itself, and over it.
    """

    def __init__(
        self,
        zookeeper: ZooKeeper,
        watchers: Watchers,
        clock: Clock,
        node_id: int,
        take: Callable[[Mapping[str, str]], None],
    ) -> None:
        self._zookeeper = zookeeper
        self._clock = clock
        self._node_id = node_id
        self._take = take
        self._own: Mapping[str, str] = {}
        self._handed_on: Mapping[str, str] = {}
        self._agreed: Mapping[str, str] = {}
        self._session_id = 0
        """In which the watch was set; 0 before the brokers have agreed."""
        self._is_reading = self._has_changed = False
        watchers.listen(paths.SHARED_SETTINGS, self._changed)
        watchers.listen_to_sessions(self._session_changed)

    async def agree(self, given: Mapping[str, Value], listener: str) -> None:
        """Takes the cluster's values, and adds those that the cluster lacks. Raises SettingError and ZnodeError.

        `given` are this broker's own settings, `listener` is its inter-broker listener. A value that differs from the cluster's
        is accepted only if no other broker runs: then it becomes the cluster's.
        """
        self._own = {name: text_of(given[name]) or "" for name in SHARED & given.keys()} | {LISTENER: listener}
        # The entry of a killed broker stays until its session ends; ZooKeeper checks sessions once a tick.
        deadline_ms = self._clock.monotonic_ms() + 1.5 * self._zookeeper.session_timeout_ms
        while True:
            with suppress(SessionEndedError):
                if await self._try_to_agree(is_last=self._clock.monotonic_ms() >= deadline_ms):
                    return
            await sleep(self._clock, PAUSE_MS)

    async def _try_to_agree(self, *, is_last: bool) -> bool:
        stored = await self._stored()
        differing = _differing(self._own, stored.values)
        others = await self._others() if differing else ()
        if others and is_last:
            raise SettingError(_refusal(self._own, stored.values, differing, others))
        if others:
            return False
        values = {**without_other_names(stored.values, self._own), **self._own}
        if values != stored.values:
            write = SetData(paths.SHARED_SETTINGS, encode_config(values), stored.version)
            if not isinstance(await ask(self._zookeeper, write), Done):
                return False
        self._session_id = self._zookeeper.session_id
        usable = _usable(values)
        self._agreed = {name: text for name, text in usable.items() if name in AGREED}
        self._handed_on = without_other_names(usable, self._own.keys() | AGREED)
        found = sorted(f"{name}={text}" for name, text in usable.items() if name not in self._own)
        if found:
            logger.info("settings taken from the cluster: %s", ", ".join(found))
        self._take({**self._handed_on, **self._agreed})
        # The own write has fired the watch.
        self._see_to_changes()
        return True

    async def _stored(self) -> Stored:
        """Raises SessionEndedError and ZnodeError."""
        while True:
            found = await ask(self._zookeeper, GetData(paths.SHARED_SETTINGS, watch=True))
            if isinstance(found, Data):
                return Stored(decode_shared_settings(found.data), found.stat.version)
            for parent in paths.parents(paths.SHARED_SETTINGS):
                await ask(self._zookeeper, Create(parent))
            await ask(self._zookeeper, Create(paths.SHARED_SETTINGS, encode_config({})))

    async def _others(self) -> tuple[str, ...]:
        """The brokers that are there, but for this one."""
        found = await ask(self._zookeeper, GetChildren(paths.BROKER_IDS))
        names = found.names if isinstance(found, Children) else ()
        return tuple(sorted((name for name in names if name != str(self._node_id)), key=lambda name: (len(name), name)))

    # --- what others say while this broker runs

    def _changed(self, _: Watched) -> None:
        self._has_changed = True
        self._see_to_changes()

    def _session_changed(self, state: ZooKeeperSessionState) -> None:
        """In the next session no watch of the one before is left."""
        if state is ZooKeeperSessionState.CONNECTED and self._session_id != self._zookeeper.session_id:
            self._has_changed = True
            self._see_to_changes()

    def _see_to_changes(self) -> None:
        """Follow a change, once the brokers have agreed."""
        if self._session_id and self._has_changed and not self._is_reading:
            self._is_reading = True
            start(self._follow())

    async def _follow(self) -> None:
        while self._has_changed:
            self._has_changed = False
            self._session_id = self._zookeeper.session_id
            (found,) = await read_each(self._zookeeper, [GetData(paths.SHARED_SETTINGS, watch=True)])
            if isinstance(found, Data):
                self._apply(found.data)
        self._is_reading = False

    def _apply(self, data: bytes) -> None:
        """Take those that the cluster has one value of. The others are looked at when this broker starts again."""
        try:
            usable = _usable(decode_shared_settings(data))
        except ZnodeError as error:
            logger.error("settings of the cluster cannot be read, and the last ones stay: %s", error)
            return
        agreed = {name: text for name, text in usable.items() if name in AGREED}
        for name, text in agreed.items():
            if self._agreed.get(name) != text:
                logger.warning("%s is %s in this cluster from now on: another broker was started with it", name, text)
        if agreed != self._agreed:
            self._agreed = agreed
            self._take({**self._handed_on, **agreed})


def _usable(stored: Mapping[str, str]) -> dict[str, str]:
    """The settings that this release shares: a broker of another release may know others."""
    usable = {}
    for name in sorted(SHARED & stored.keys()):
        try:
            BROKER_SETTINGS[name].parse(stored[name])
        except SettingError as error:
            logger.error("%s of the cluster in ZooKeeper is ignored: %s", name, error)
            continue
        usable[name] = stored[name]
    return usable


def _differing(own: Mapping[str, str], stored: Mapping[str, str]) -> list[str]:
    """Settings with one value for the cluster that this broker has another value of."""
    return sorted(name for name in (AGREED | {LISTENER}) & own.keys() & stored.keys() if own[name] != stored[name])


def _refusal(own: Mapping[str, str], stored: Mapping[str, str], differing: list[str], others: tuple[str, ...]) -> str:
    if LISTENER in differing:
        return (
            f"this broker would reach others at a listener {own[LISTENER]}, and the brokers of this cluster reach each other at "
            f"{stored[LISTENER]}: give it a listener of that name, and set {LISTENER}={stored[LISTENER]}"
        )
    here = ", ".join(f"{name}={own[name]}" for name in differing)
    there = ", ".join(f"{name}={stored[name]}" for name in differing)
    running = f"broker {others[0]} runs" if len(others) == 1 else f"brokers {', '.join(others)} run"
    dynamic = [name for name in differing if BROKER_SETTINGS[name].is_dynamic]
    alter = f", change it with `oncelog configs alter --every-broker --set {dynamic[0]}=…`" if dynamic else ""
    return (
        f"{here} is not allowed: this cluster has {there}, and {running} with it. Leave it out{alter}, or stop every broker "
        "before one is started with another value"
    )
