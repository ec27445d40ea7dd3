"""Changing the settings that a cluster keeps in ZooKeeper: those of a topic, of this broker, and of every broker."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from oncelog.broker.storage.altering import (
    ALL_BROKERS,
    DONE,
    AlterationRefusedError,
    Outcome,
    ResourceType,
    broker_configs,
    check_broker,
    no_settings,
    topic_configs,
)
from oncelog.cluster.config_writes import change_configs
from oncelog.cluster.configs import BROKERS, TOPICS
from oncelog.cluster.zookeeper.asking import SessionEndedError, read_each, within
from oncelog.cluster.zookeeper.session import Done, Exists
from oncelog.cluster.zookeeper.znodes import DEFAULT_ENTITY, ConfigEntity, paths
from oncelog.coordination import Promise, start
from oncelog.coordination.flows import OneAtATime
from oncelog.wire import ErrorCode
from oncelog.wire.topic_names import name_problem

if TYPE_CHECKING:
    from oncelog.broker.config.configuration import Settings
    from oncelog.broker.storage.altering import Alter, AlterOne
    from oncelog.cluster.configs import ClusterConfigs
    from oncelog.cluster.zookeeper.session import ZooKeeper
    from oncelog.environment import Clock

TIMEOUT_MS = 30_000
"""The requests name none: it is how long clients wait that were told nothing else (request.timeout.ms)."""
TIMED_OUT: Outcome = (ErrorCode.request_timed_out, "ZooKeeper has not answered in time")
SESSION_ENDED: Outcome = (ErrorCode.request_timed_out, "the session with ZooKeeper ended before its answer came")


class ClusterAlterations:
    """One change at a time, so that each begins with what the one before has left. Other brokers' changes may come between."""

    def __init__(
        self, clock: Clock, configs: ClusterConfigs, node_id: int, settings: Settings, zookeeper: ZooKeeper
    ) -> None:
        self._clock = clock
        self._configs = configs
        self._node_id = node_id
        self._settings = settings
        self._zookeeper = zookeeper
        self._changes = OneAtATime()

    def alter_one(self, *, validate_only: bool) -> AlterOne:
        return partial(self._alter_or_give_up, validate_only)

    def _alter_or_give_up(self, validate_only: bool, kind: int, name: str, alter: Alter) -> Promise[Outcome]:
        end_ms = self._clock.monotonic_ms() + TIMEOUT_MS
        # It goes on by itself, whether or not somebody still waits for it.
        altered = start(self._in_turn(validate_only, kind, name, alter, end_ms))
        return start(self._answered(altered))

    async def _answered(self, altered: Promise[Outcome]) -> Outcome:
        return await within(self._clock, TIMEOUT_MS, altered) or TIMED_OUT

    async def _in_turn(self, validate_only: bool, kind: int, name: str, alter: Alter, end_ms: float) -> Outcome:
        await self._changes.enter()
        try:
            return await self._alter(validate_only, kind, name, alter, end_ms)
        except AlterationRefusedError as refused:
            return refused.outcome
        except SessionEndedError:
            return SESSION_ENDED
        finally:
            self._changes.leave()

    async def _alter(self, validate_only: bool, kind: int, name: str, alter: Alter, end_ms: float) -> Outcome:
        entity = self._entity(kind, name)
        if entity.entity_type == TOPICS:
            configs = topic_configs(self._settings, name, await self._of_topic(name), alter)
        else:
            stored = await self._configs.stored(entity)
            configs = broker_configs(stored, alter, of_all=not name, stores_unknown=True)
        if validate_only:
            return DONE
        if self._clock.monotonic_ms() >= end_ms:
            # Nobody waits for it any more, and it is not begun.
            return TIMED_OUT
        problem = await change_configs(self._zookeeper, entity, configs)
        if problem is not None:
            return problem
        await self._configs.read([entity])
        return DONE

    async def _of_topic(self, name: str) -> dict[str, str]:
        """The settings of a topic. Raises AlterationRefusedError if there is no such topic."""
        if not name:
            raise AlterationRefusedError(ErrorCode.invalid_request, "Default topic resources are not allowed.")
        if name_problem(name) is None:
            stored = await self._configs.stored(ConfigEntity(TOPICS, name))
            (there,) = await read_each(self._zookeeper, [Exists(paths.topic(name))])
            if isinstance(there, Done):
                return stored
        raise AlterationRefusedError(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")

    def _entity(self, kind: int, name: str) -> ConfigEntity:
        if kind == ResourceType.TOPIC:
            return ConfigEntity(TOPICS, name)
        if kind == ResourceType.BROKER:
            check_broker(self._node_id, name)
            return ConfigEntity(BROKERS, DEFAULT_ENTITY if name == ALL_BROKERS else str(self._node_id))
        raise AlterationRefusedError(ErrorCode.invalid_request, no_settings(kind))
