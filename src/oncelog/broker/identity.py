"""The identity of a broker: the ids of its cluster and its node, in the log directories and in the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.setting import SettingError
from oncelog.broker.coordinators.loading import JournalState
from oncelog.environment import DiskError
from oncelog.log import LogDirectories

HOW_TO_CONVERT = "let `oncelog cluster convert` make the data directory that of the first broker of a new cluster"


class Identity(NamedTuple):
    cluster_id: str
    node_id: int


def identity_alone(directories: LogDirectories, settings: Settings, new_id: Callable[[], str]) -> Identity:
    """The identity in the directories; a new one, whose cluster id is `new_id()`, where they are new.

    Raises SettingError if node.id is another, and DiskError if the directories have lost whose they are.
    """
    found = _identity_in(directories)
    node_id = settings.number("node.id") if found is None else found.node_id
    asked = settings.given.get("node.id", node_id)
    if asked != node_id:
        raise SettingError(f"node.id={asked} is not allowed: {directories.home} is that of node {node_id}")
    settings.name_node(node_id)
    return Identity(new_id(), node_id) if found is None else found


def identity_in_cluster(directories: LogDirectories, cluster_id: str, node_id: int) -> Identity:
    """Raises SettingError if the directories are of another broker, and DiskError if they have lost whose they are."""
    found = _identity_in(directories)
    if found is not None and found != (cluster_id, node_id):
        raise SettingError(
            f"{directories.home} is that of broker {found.node_id} of cluster {found.cluster_id}, and this is broker {node_id} "
            f"of cluster {cluster_id}: correct broker.id, zookeeper.connect or log.dirs"
        )
    return Identity(cluster_id, node_id)


def _identity_in(directories: LogDirectories) -> Identity | None:
    found = directories.identity()
    if found is None and directories.were_in_use():
        raise DiskError(
            f"{directories.home}/meta.properties is missing, and the directory was in use: restore it from a copy"
        )
    return None if found is None else Identity(found.cluster_id, found.node_id)


def is_of_member(state: JournalState) -> bool:
    """True if the directories are a member's: they were converted, or have replicas."""
    return state.is_converted or any(one.partitions for one in state.hosted.values())


def check_alone(state: JournalState, home: str) -> None:
    """Raise SettingError for the directories of a member of a cluster: nobody would serve what they hold."""
    if is_of_member(state):
        raise SettingError(f"{home} has replicas of a cluster: give zookeeper.connect and broker.id, as before")


def check_member(state: JournalState, home: str) -> None:
    """Raise SettingError for the directories of a broker that is alone: nobody would serve what they hold."""
    if state.topics:
        raise SettingError(
            f"{home} has topics of a broker that is alone, and zookeeper.connect makes this one a member of a cluster: "
            f"{HOW_TO_CONVERT}, or give it an empty one"
        )
