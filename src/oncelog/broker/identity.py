"""Which broker of which cluster this is: what the directories say, the settings, and, for a member of a cluster, ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable

from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.setting import SettingError
from oncelog.broker.coordinators.loading import JournalState
from oncelog.environment import DiskError
from oncelog.log import LogDirectories

HOW_TO_CONVERT = "let `oncelog cluster convert` make the data directory that of the first broker of a new cluster"


def take_identity(
    directories: LogDirectories, settings: Settings, new_id: Callable[[], str], cluster_id: str | None
) -> tuple[str, int]:
    """The cluster's id and the broker's. `new_id` makes one for a broker that is new and alone; `cluster_id` is what ZooKeeper has.

    Raises SettingError if the directories are of another one, and DiskError if they have lost whose they are.
    """
    found = directories.identity()
    if found is None and directories.were_in_use():
        raise DiskError(
            f"{directories.home}/meta.properties is missing, and the directory was in use: restore it from a copy"
        )
    node_id = settings.number("node.id")
    if cluster_id is not None:
        if found is not None and (found.cluster_id, found.node_id) != (cluster_id, node_id):
            raise SettingError(
                f"{directories.home} is that of broker {found.node_id} of cluster {found.cluster_id}, and this is broker {node_id} "
                f"of cluster {cluster_id}: correct broker.id, zookeeper.connect or log.dirs"
            )
        return cluster_id, node_id
    if found is not None:
        node_id = found.node_id
    asked = settings.given.get("node.id", node_id)
    if asked != node_id:
        raise SettingError(f"node.id={asked} is not allowed: {directories.home} is that of node {node_id}")
    settings.name_node(node_id)
    return new_id() if found is None else found.cluster_id, node_id


def is_of_member(state: JournalState) -> bool:
    """Whether the directories are known to be a member's: they were converted, or have replicas."""
    return state.is_converted or any(one.partitions for one in state.hosted.values())


def check_kind(state: JournalState, home: str, *, is_in_cluster: bool) -> None:
    """Raise SettingError for the directories of a broker of the other kind: what they hold would be served by nobody."""
    if is_in_cluster and state.topics:
        raise SettingError(
            f"{home} has topics of a broker that is alone, and zookeeper.connect makes this one a member of a cluster: "
            f"{HOW_TO_CONVERT}, or give it an empty one"
        )
    if not is_in_cluster and is_of_member(state):
        raise SettingError(f"{home} has replicas of a cluster: give zookeeper.connect and broker.id, as before")
