"""Reads the cluster's state from ZooKeeper, and sets the controller's watches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from oncelog.cluster.controller.actions import DeleteNotification
from oncelog.cluster.controller.failover import Snapshot
from oncelog.cluster.controller.requests import address
from oncelog.cluster.controller.values import LeaderAndIsr, RegisteredBroker, TopicAssignment, TopicPartition
from oncelog.cluster.controller.znodes import decode_assignment, decode_registration, decode_state
from oncelog.cluster.controller.zookeeper import ControllerZooKeeper
from oncelog.cluster.zookeeper.session import Create, Data, Done, Exists, SetData
from oncelog.cluster.zookeeper.znodes import (
    FeatureStatus,
    FeatureZnode,
    ZnodeError,
    decode_feature,
    decode_preferred_replica_election,
    decode_reassignments,
    paths,
)
from oncelog.cluster.zookeeper.znodes.json_text import INT_MAX
from oncelog.environment import Random
from oncelog.wire.topic_names import name_problem

logger = logging.getLogger("oncelog.cluster.controller")

K = TypeVar("K")
V = TypeVar("V")
INT_DIGITS_MAX = 10


async def load(zookeeper: ControllerZooKeeper, random: Random, listener: str) -> Snapshot:
    """Reads all that a new controller needs. Deletes unserved notifications first, since it reads their subjects anyway."""
    for path in (paths.LOG_DIR_EVENTS, paths.ISR_CHANGES):
        names = await zookeeper.children(path, watch=True)
        await zookeeper.write_all([DeleteNotification(f"{path}/{name}") for name in names])
    levels = await enable_features(zookeeper)
    brokers = await read_brokers(zookeeper, levels, listener)
    topics = await read_topics(zookeeper, await zookeeper.children(paths.TOPICS, watch=True))
    leaders = await read_states(
        zookeeper, [(topic, number) for topic, one in topics.items() for number in one.partitions]
    )
    return Snapshot(
        brokers,
        topics,
        leaders,
        await zookeeper.children(paths.DELETE_TOPICS, watch=True),
        await read_reassignments(zookeeper),
        await read_preferred_elections(zookeeper),
        fresh_ids(topics, random),
    )


async def enable_features(zookeeper: ControllerZooKeeper) -> dict[str, int]:
    """The levels of the cluster's features, behind a `/feature` as this controller leaves it. What is broken it leaves alone."""
    (read,) = await zookeeper.read_all([paths.FEATURE])
    existing = _features(read)
    if read is not None and existing is None:
        return {}
    wanted = feature_znode(existing)
    if existing is None:
        await zookeeper.write_plain([Create(paths.FEATURE, wanted.encode())])
    elif existing != wanted:
        await zookeeper.write_plain([SetData(paths.FEATURE, wanted.encode())])
    return dict(wanted.features)


async def read_levels(zookeeper: ControllerZooKeeper) -> dict[str, int]:
    (read,) = await zookeeper.read_all([paths.FEATURE])
    existing = _features(read)
    return {} if existing is None else dict(feature_znode(existing).features)


def _features(read: Data | None) -> FeatureZnode | None:
    return _decoded([paths.FEATURE], [read], lambda _, found: decode_feature(found.data)).get(paths.FEATURE)


async def read_brokers(
    zookeeper: ControllerZooKeeper, levels: dict[str, int], listener: str
) -> dict[int, RegisteredBroker]:
    """Reads the registered brokers. Leaves out brokers that lack a feature of the cluster or the inter-broker listener."""
    names = await zookeeper.children(paths.BROKER_IDS, watch=True)
    broker_ids = sorted(numbers(names))
    reads = await zookeeper.read_all([paths.broker(broker_id) for broker_id in broker_ids], watch=True)
    found = _decoded(broker_ids, reads, decode_registration)
    usable = {}
    for broker_id, broker in found.items():
        if not is_compatible(broker, levels):
            logger.warning("broker %d is left out: it does not support the features of the cluster", broker_id)
        elif address(broker, listener) is None:
            logger.warning("broker %d is left out: it has no listener %s", broker_id, listener)
        else:
            usable[broker_id] = broker
    return usable


async def read_topics(zookeeper: ControllerZooKeeper, names: Iterable[str]) -> dict[str, TopicAssignment]:
    """Reads assignments, and sets watches for their growth. Topics that are gone meanwhile are left out."""
    every = list(names)
    reads = await zookeeper.read_all([paths.topic(name) for name in every], watch=True)
    return _decoded(every, reads, _decode_topic)


def _decode_topic(name: str, read: Data) -> TopicAssignment:
    problem = name_problem(name)
    if problem is not None:
        raise ZnodeError(paths.topic(name), read.data, problem)
    return decode_assignment(name, read)


async def read_states(
    zookeeper: ControllerZooKeeper, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, LeaderAndIsr]:
    reads = await zookeeper.read_all([paths.partition_state(*partition) for partition in partitions])
    return _decoded(partitions, reads, decode_state)


async def read_reassignments(zookeeper: ControllerZooKeeper) -> dict[TopicPartition, tuple[int, ...]] | None:
    path = paths.REASSIGN_PARTITIONS
    read = await _read_order(zookeeper, path)
    return _decoded([path], [read], lambda _, order: decode_reassignments(order.data)).get(path)


async def read_preferred_elections(zookeeper: ControllerZooKeeper) -> list[TopicPartition] | None:
    path = paths.PREFERRED_REPLICA_ELECTION
    read = await _read_order(zookeeper, path)
    return _decoded([path], [read], lambda _, order: decode_preferred_replica_election(order.data)).get(path)


def fresh_ids(topics: dict[str, TopicAssignment], random: Random) -> dict[str, UUID]:
    """Draws ids for topics without one."""
    return {topic: random.uuid() for topic, one in topics.items() if one.topic_id is None}


async def _read_order(zookeeper: ControllerZooKeeper, path: str) -> Data | None:
    """Reads an operator's order, if there is one, and leaves a watch for the next."""
    if not isinstance(await zookeeper.ask(Exists(path, watch=True)), Done):
        return None
    (read,) = await zookeeper.read_all([path])
    return read


def numbers(names: Iterable[str]) -> set[int]:
    """Parses child names that are numbers, and ignores all others."""
    digits = [name for name in names if name.isascii() and name.isdecimal() and len(name) <= INT_DIGITS_MAX]
    return {number for number in map(int, digits) if number <= INT_MAX}


def read_notifications(read: Mapping[str, bytes], decode: Callable[[str, bytes], V]) -> list[V]:
    """Decodes notifications, and logs malformed ones."""
    found = []
    for name, data in read.items():
        try:
            found.append(decode(name, data))
        except ZnodeError as error:
            logger.error("%s", error)
    return found


def _decoded(keys: Sequence[K], reads: Sequence[Data | None], decode: Callable[[K, Data], V]) -> dict[K, V]:
    """Decodes the znodes that exist. A malformed znode is logged and left out."""
    found = {}
    for key, read in zip(keys, reads, strict=True):
        if read is None:
            continue
        try:
            found[key] = decode(key, read)
        except ZnodeError as error:
            logger.error("%s", error)
    return found


def feature_znode(existing: FeatureZnode | None) -> FeatureZnode:
    """As a controller of Kafka 3.9 leaves it: enabled, with the levels that it had. Over ZooKeeper brokers support none."""
    is_used = existing is not None and existing.status is FeatureStatus.ENABLED
    return FeatureZnode(existing.features if existing is not None and is_used else {})


def is_compatible(broker: RegisteredBroker, levels: Mapping[str, int]) -> bool:
    """Checks that the broker supports every feature level of the cluster."""
    supported = {name: (low, high) for name, low, high in broker.features}
    return all(
        name in supported and supported[name][0] <= level <= supported[name][1] for name, level in levels.items()
    )
