"""The controller's events for changes in ZooKeeper: read the new state, watch again, and act on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oncelog.cluster.controller.actions import DeleteNotification
from oncelog.cluster.controller.alter_partition import change_isrs
from oncelog.cluster.controller.brokers import ask_for_failed_directories, change_brokers, modify_broker
from oncelog.cluster.controller.leader_elections import elect_from_znode
from oncelog.cluster.controller.loading import (
    fresh_ids,
    numbers,
    read_brokers,
    read_levels,
    read_notifications,
    read_preferred_elections,
    read_reassignments,
    read_topics,
)
from oncelog.cluster.controller.reassignment import reassign_from_znode
from oncelog.cluster.controller.term import ControllerEvent, ControllerTerm
from oncelog.cluster.controller.topics import change_partitions_of, change_topics, drop_deletions, queue_deletions
from oncelog.cluster.controller.znodes import decode_registration
from oncelog.cluster.zookeeper.session import NodeChange, Watched
from oncelog.cluster.zookeeper.znodes import decode_isr_change, decode_log_dir_event, paths
from oncelog.coordination import Flow

Serve = Callable[[ControllerTerm], Flow[None]]


def event_of(watched: Watched, term: ControllerTerm) -> ControllerEvent | None:
    """The event for a change; None for paths that the controller does not watch."""
    served = _SERVED.get(watched.path)
    if served is not None:
        name, serve = served
        return ControllerEvent(name, lambda: serve(term))
    parent, _, name = watched.path.rpartition("/")
    if watched.change is not NodeChange.DATA:
        return None
    if parent == paths.BROKER_IDS:
        return ControllerEvent("broker modification", lambda: _modify_broker(term, int(name)))
    if parent == paths.TOPICS:
        return ControllerEvent("partition modification", lambda: _modify_topic(term, name))
    return None


async def _change_brokers(term: ControllerTerm) -> None:
    registered = await read_brokers(
        term.zookeeper, await read_levels(term.zookeeper), term.settings.inter_broker_listener
    )
    await change_brokers(term.context, registered)


async def _modify_broker(term: ControllerTerm, broker_id: int) -> None:
    (read,) = await term.zookeeper.read_all([paths.broker(broker_id)], watch=True)
    if read is not None:
        await modify_broker(term.context, decode_registration(broker_id, read))


async def _change_topics(term: ControllerTerm) -> None:
    names = await term.zookeeper.children(paths.TOPICS, watch=True)
    new = await read_topics(term.zookeeper, [name for name in names if name not in term.context.topics])
    await change_topics(term.context, names, new, fresh_ids(new, term.random))


async def _modify_topic(term: ControllerTerm, name: str) -> None:
    read = (await read_topics(term.zookeeper, [name])).get(name)
    if read is not None:
        existing = numbers(await term.zookeeper.children(paths.partitions(name)))
        await change_partitions_of(term.context, name, read.partitions, existing)


async def _delete_topics(term: ControllerTerm) -> None:
    topics = await term.zookeeper.children(paths.DELETE_TOPICS, watch=True)
    if term.settings.delete_topic_enable:
        await queue_deletions(term.context, topics)
    else:
        await drop_deletions(term.context, topics)


async def _reassign(term: ControllerTerm) -> None:
    targets = await read_reassignments(term.zookeeper)
    if targets is not None:
        await reassign_from_znode(term.context, targets)


async def _elect_preferred(term: ControllerTerm) -> None:
    partitions = await read_preferred_elections(term.zookeeper)
    if partitions is not None:
        await elect_from_znode(term.context, partitions)


async def _change_isrs(term: ControllerTerm) -> None:
    read = await _notifications(term, paths.ISR_CHANGES)
    changed = dict.fromkeys(partition for one in read_notifications(read, decode_isr_change) for partition in one)
    known = [partition for partition in changed if partition in term.context.leaders]
    await change_isrs(term.context, known)
    await _delete_notifications(term, paths.ISR_CHANGES, read)


async def _fail_directories(term: ControllerTerm) -> None:
    read = await _notifications(term, paths.LOG_DIR_EVENTS)
    broker_ids = set(read_notifications(read, decode_log_dir_event))
    await ask_for_failed_directories(term.context, broker_ids)
    await _delete_notifications(term, paths.LOG_DIR_EVENTS, read)


async def _notifications(term: ControllerTerm, path: str) -> dict[str, bytes]:
    names = await term.zookeeper.children(path, watch=True)
    reads = await term.zookeeper.read_all([f"{path}/{name}" for name in names])
    return {name: read.data for name, read in zip(names, reads, strict=True) if read is not None}


async def _delete_notifications(term: ControllerTerm, path: str, read: Mapping[str, bytes]) -> None:
    """Deletes the served notifications only: the next one may be there already."""
    await term.zookeeper.write_all([DeleteNotification(f"{path}/{name}") for name in read])


_SERVED: Mapping[str, tuple[str, Serve]] = {
    paths.BROKER_IDS: ("broker change", _change_brokers),
    paths.TOPICS: ("topic change", _change_topics),
    paths.DELETE_TOPICS: ("topic deletion", _delete_topics),
    paths.REASSIGN_PARTITIONS: ("reassignment by znode", _reassign),
    paths.PREFERRED_REPLICA_ELECTION: ("preferred election by znode", _elect_preferred),
    paths.ISR_CHANGES: ("change of in-sync replicas", _change_isrs),
    paths.LOG_DIR_EVENTS: ("failure of a log directory", _fail_directories),
}
