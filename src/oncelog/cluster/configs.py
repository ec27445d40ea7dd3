"""Settings that a cluster keeps in ZooKeeper: this broker reads its own and those of its topics, and follows their changes.

A change of an entity's settings adds a node to `/config/changes` that names it. The broker applies the settings that ZooKeeper has
by then: repeated and merged notifications do no harm.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from oncelog.broker.config.configuration import SettingSource, check_topic
from oncelog.broker.config.setting import Setting, SettingError
from oncelog.broker.config.settings import BROKER_SETTINGS, TOPIC_SETTINGS
from oncelog.broker.slices import parts
from oncelog.cluster.zookeeper.asking import read_each
from oncelog.cluster.zookeeper.session import (
    Children,
    Data,
    Delete,
    GetChildren,
    GetData,
    Result,
    ZooKeeperSessionState,
)
from oncelog.cluster.zookeeper.znodes import (
    DEFAULT_ENTITY,
    ConfigEntity,
    ZnodeError,
    decode_config,
    decode_config_change,
    paths,
)
from oncelog.coordination import Promise
from oncelog.coordination import start as start_flow

if TYPE_CHECKING:
    from oncelog.broker.config.configuration import Settings
    from oncelog.broker.storage.topics import Topic, Topics
    from oncelog.cluster.zookeeper.session import Watched, ZooKeeper
    from oncelog.cluster.zookeeper.watches import Watchers
    from oncelog.environment import Clock

logger = logging.getLogger("oncelog.broker")

TOPICS, BROKERS = "topics", "brokers"
THROTTLED = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
UNCLEAN_ELECTION = "unclean.leader.election.enable"
CHANGE_KEPT_MS = 15 * 60_000
"""So long others have time to read of a change, as in Kafka."""
AT_ONCE = 100
"""So many nodes are read side by side."""


class Behind(IntEnum):
    """The state of an entity's settings that are to be read again; the higher, the more urgent."""

    NOTHING = 0
    CHANGES = 1
    ALL = 2


class ClusterConfigs:
    """Settings of this broker go into `settings`, those of topics to the `topics` that `follow` is given."""

    def __init__(
        self, zookeeper: ZooKeeper, watchers: Watchers, clock: Clock, settings: Settings, node_id: int
    ) -> None:
        self._zookeeper = zookeeper
        self._clock = clock
        self._settings = settings
        self._sources = {
            DEFAULT_ENTITY: SettingSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
            str(node_id): SettingSource.DYNAMIC_BROKER_CONFIG,
        }
        self._topics: Topics | None = None
        self.on_unclean_election: Callable[[str | None], None] = lambda _: None
        """Hears of a topic, or with None of every one, whose settings allow unclean elections from now on."""
        self._of_topics: dict[str, dict[str, str]] = {}
        self._remarks: set[str] = set()
        self._seen_ms: dict[str, float] = {}
        self._behind = Behind.NOTHING
        self._catching_up: Promise[None] | None = None
        self._session_id = 0
        watchers.listen(paths.CONFIG_CHANGES, self._heard_of_change)
        watchers.listen_to_sessions(self._heard_of_session)

    def start(self) -> Promise[None]:
        """Follow the settings from now on; resolves when all that there are have been read."""
        self._session_id = self._zookeeper.session_id
        return self._fell_behind(Behind.ALL)

    def follow(self, topics: Topics) -> None:
        """Have these topics follow from now on. They may have been made with settings that are others by now."""
        self._topics = topics
        for topic in topics:
            self._configure(topic, self._of_topics.get(topic.name, {}))

    def of_topic(self, name: str) -> Mapping[str, str]:
        """The last known settings of a topic."""
        return self._of_topics.get(name, {})

    async def read_topics(self, names: Iterable[str]) -> None:
        """Apply what ZooKeeper has of these topics."""
        await self.read([ConfigEntity(TOPICS, name) for name in names])

    async def read(self, entities: Iterable[ConfigEntity]) -> None:
        """Apply what ZooKeeper has of these."""
        for some in parts(entities, AT_ONCE):
            self._apply(zip(some, await self.stored_each(some), strict=True))

    async def stored(self, entity: ConfigEntity) -> dict[str, str]:
        """The current settings in ZooKeeper, with those that this broker does not know."""
        (found,) = await self.stored_each([entity])
        return found

    async def stored_each(self, entities: Sequence[ConfigEntity]) -> list[dict[str, str]]:
        requests = [GetData(paths.config(one.entity_type, one.entity)) for one in entities]
        results = await read_each(self._zookeeper, requests)
        return [self._stored(one, result) for one, result in zip(entities, results, strict=True)]

    def usable_of_topic(self, name: str, stored: Mapping[str, str]) -> dict[str, str]:
        """The settings of a topic that this broker knows, and so applies."""
        for throttled in sorted(stored.keys() & THROTTLED):
            self._remark(
                f"{throttled} of topic {name} in ZooKeeper is for brokers of Apache Kafka: this one throttles nothing"
            )
        usable = self._usable(f"topic {name}", stored, TOPIC_SETTINGS)
        try:
            check_topic(self._settings, usable)
        except SettingError as error:
            self._remark(f"settings of topic {name} in ZooKeeper are left alone: {error}")
            return {}
        return usable

    def _fell_behind(self, what: Behind) -> Promise[None]:
        self._behind = max(self._behind, what)
        if self._catching_up is None:
            self._catching_up = Promise()
            start_flow(self._catch_up(self._catching_up))
        return self._catching_up or Promise.ready(None)

    def _heard_of_change(self, _: Watched) -> None:
        self._fell_behind(Behind.CHANGES)

    def _heard_of_session(self, state: ZooKeeperSessionState) -> None:
        """In the next session no watch of the one before is left."""
        if state is not ZooKeeperSessionState.CONNECTED:
            return
        before, self._session_id = self._session_id, self._zookeeper.session_id
        if before not in (0, self._session_id):
            self._fell_behind(Behind.ALL)

    async def _catch_up(self, done: Promise[None]) -> None:
        while self._behind is not Behind.NOTHING:
            behind, self._behind = self._behind, Behind.NOTHING
            # The watch is set before anything is read: no change is missed.
            names = await self._names_of_changes()
            if behind is Behind.ALL:
                self._note_changes(names)
                await self._read_all()
            else:
                await self._read_changes([name for name in names if name not in self._seen_ms])
                self._note_changes(names)
            await self._purge()
        self._catching_up = None
        done.resolve(None)

    async def _names_of_changes(self) -> list[str]:
        return sorted(await self._children(paths.CONFIG_CHANGES, watch=True))

    async def _children(self, path: str, *, watch: bool = False) -> tuple[str, ...]:
        (found,) = await read_each(self._zookeeper, [GetChildren(path, watch=watch)])
        return found.names if isinstance(found, Children) else ()

    def _note_changes(self, names: Sequence[str]) -> None:
        now_ms = self._clock.monotonic_ms()
        self._seen_ms = {name: self._seen_ms.get(name, now_ms) for name in names}

    async def _read_all(self) -> None:
        names = await self._children(paths.config_type(TOPICS))
        for gone in self._of_topics.keys() - set(names):
            self._apply_to_topic(gone, {})
        await self.read([ConfigEntity(BROKERS, name) for name in self._sources])
        await self.read_topics(names)

    async def _read_changes(self, names: Sequence[str]) -> None:
        requests = [GetData(f"{paths.CONFIG_CHANGES}/{name}") for name in names]
        found = zip(names, await read_each(self._zookeeper, requests), strict=True)
        changed = [self._change(name, result.data) for name, result in found if isinstance(result, Data)]
        await self.read(dict.fromkeys(one for one in changed if one is not None and self._concerns(one)))

    def _change(self, name: str, data: bytes) -> ConfigEntity | None:
        try:
            return decode_config_change(name, data)
        except ZnodeError as error:
            self._remark(f"a change of settings is left out: {error}")
            return None

    def _concerns(self, entity: ConfigEntity) -> bool:
        return entity.entity_type == TOPICS or (entity.entity_type == BROKERS and entity.entity in self._sources)

    async def _purge(self) -> None:
        """Every broker does so, as in Kafka, and the first is as good as the last. A broker counts from when it saw a node."""
        since_ms = self._clock.monotonic_ms() - CHANGE_KEPT_MS
        old = [name for name, seen_ms in self._seen_ms.items() if seen_ms < since_ms]
        for under_way in [self._zookeeper.submit(Delete(f"{paths.CONFIG_CHANGES}/{name}")) for name in old]:
            # What is not deleted now is so at the next change.
            await under_way

    def _stored(self, entity: ConfigEntity, result: Result) -> dict[str, str]:
        if not isinstance(result, Data):
            return {}
        try:
            return decode_config(entity.entity_type, entity.entity, result.data)
        except ZnodeError as error:
            self._remark(f"settings are taken for none: {error}")
            return {}

    def _apply(self, found: Iterable[tuple[ConfigEntity, dict[str, str]]]) -> None:
        for entity, stored in found:
            if entity.entity_type == TOPICS:
                self._apply_to_topic(entity.entity, self.usable_of_topic(entity.entity, stored))
            else:
                self._apply_to_broker(entity.entity, stored)

    def _apply_to_topic(self, name: str, configs: dict[str, str]) -> None:
        if configs:
            self._of_topics[name] = configs
        else:
            self._of_topics.pop(name, None)
        topic = None if self._topics is None else self._topics.named(name)
        if topic is not None:
            self._configure(topic, configs)

    def _configure(self, topic: Topic, configs: Mapping[str, str]) -> None:
        if self._topics is not None and topic.configs != configs:
            logger.info("topic %s has its own settings %s", topic.name, dict(configs))
            self._topics.configure(topic, configs)

    def _apply_to_broker(self, name: str, stored: Mapping[str, str]) -> None:
        source = self._sources[name]
        known = self._usable(f"broker {name}", stored, BROKER_SETTINGS, lambda setting: setting.is_dynamic)
        before, allowed_before = dict(self._settings.layer(source)), self._settings.value(UNCLEAN_ELECTION)
        self._settings.configure(source, known)
        if self._settings.layer(source) != before:
            logger.info("%s has settings of its own %s", f"broker {name}", known)
            self._settings_changed(allowed_before=bool(allowed_before))

    def share(self, values: Mapping[str, str]) -> None:
        """Take settings that the brokers of the cluster share."""
        allowed_before = self._settings.value(UNCLEAN_ELECTION)
        self._settings.share(values)
        self._settings_changed(allowed_before=bool(allowed_before))

    def _settings_changed(self, *, allowed_before: bool) -> None:
        if self._topics is not None:
            self._topics.settings_changed()
        if self._settings.value(UNCLEAN_ELECTION) and not allowed_before:
            self.on_unclean_election(None)

    def _usable(
        self,
        whose: str,
        stored: Mapping[str, str],
        table: Mapping[str, Setting],
        takes: Callable[[Setting], bool] = lambda _: True,
    ) -> dict[str, str]:
        usable = {}
        for name, text in stored.items():
            setting = table.get(name)
            if setting is None:
                self._remark(f"{name} of {whose} in ZooKeeper is left alone: it is not known here")
                continue
            if not takes(setting):
                self._remark(f"{name} of {whose} in ZooKeeper is left alone: a running broker takes no new value of it")
                continue
            try:
                setting.parse(text)
            except SettingError as error:
                self._remark(f"{name} of {whose} in ZooKeeper is left alone: {error}")
                continue
            usable[name] = text
        return usable

    def _remark(self, text: str) -> None:
        """Say it once: it is read again and again."""
        if text not in self._remarks:
            self._remarks.add(text)
            logger.warning("%s", text)
