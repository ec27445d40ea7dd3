"""Conversion of a standalone broker into the first member of a cluster: its journal's state is written to ZooKeeper.

The conversion may be interrupted at any step. The directories change only after ZooKeeper has everything, and a new attempt writes
the same again. Until then the broker may run alone; the next attempt overwrites the znodes with its new state.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from oncelog import groups
from oncelog.broker.config.configuration import Settings
from oncelog.broker.coordinators.loading import JournalState, find_partitions, read_journal
from oncelog.broker.identity import is_of_member
from oncelog.broker.slices import parts
from oncelog.broker.storage.journal import FILE_NAME, BecameMember, Journal, TopicCreated
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, INTERNAL_TOPICS
from oncelog.cluster.zookeeper.asking import ask_in_any_session, read_each
from oncelog.cluster.zookeeper.session import (
    Children,
    Create,
    Data,
    GetChildren,
    GetData,
    Result,
    SetData,
    ZooKeeper,
    ZooKeeperError,
)
from oncelog.cluster.zookeeper.znodes import (
    DEFAULT_ENTITY,
    AssignedReplicas,
    PartitionStateZnode,
    ProducerIdBlock,
    TopicZnode,
    decode_cluster_id,
    decode_topic,
    encode_cluster_id,
    encode_config,
    paths,
)
from oncelog.environment import Disk, DiskError
from oncelog.groups.consumer.records import MemberRecord
from oncelog.log import LEADER_EPOCHS, LogDirectories, NodeIdentity, read_own_checkpoint
from oncelog.log.checkpoints import read_epoch_starts
from oncelog.log.names import LOG, offset_of
from oncelog.records import BatchHeader, batches, decode_batch
from oncelog.wire import WireError

AT_ONCE = 100
"""The number of znodes that are written at once."""
BEFORE_ANY_CONTROLLER = 0


class ConversionRefusedError(Exception):
    """The directories cannot be converted. The message is one sentence with the reason and what to do."""


@dataclass(frozen=True, slots=True)
class Converted:
    """The converted broker and the number of its topics and partitions. `is_new` is False if they were converted before."""

    cluster_id: str
    broker_id: int
    topic_count: int
    partition_count: int
    is_new: bool


class NodeToWrite(NamedTuple):
    path: str
    data: bytes | None


async def convert(found: LeftAlone, zookeeper: ZooKeeper) -> Converted:
    """Raises ConversionRefusedError, DiskError and ZnodeError."""
    cluster_id, broker_id = found.identity.cluster_id, found.identity.node_id
    if found.is_member:
        await _check_member(found, zookeeper)
        hosted = [one.partitions for one in found.state.hosted.values() if one.partitions]
        return Converted(cluster_id, broker_id, len(hosted), sum(map(len, hosted)), is_new=False)
    found.check()
    await _check_new(found, zookeeper)
    for some in parts(_nodes(found), AT_ONCE):
        await _write(zookeeper, some)
    # A broker that started meanwhile has read a part of this state.
    await _check_unused(zookeeper)
    found.directories.keep_names()
    found.journal.append_now(BecameMember())
    counts = [topic.partition_count for topic in found.topics]
    return Converted(cluster_id, broker_id, len(counts), sum(counts), is_new=True)


async def _check_member(found: LeftAlone, zookeeper: ZooKeeper) -> None:
    (there,) = await read_each(zookeeper, [GetData(paths.CLUSTER_ID)])
    home, own = found.directories.home, found.identity.cluster_id
    if not isinstance(there, Data):
        raise ConversionRefusedError(
            f"{home} belongs to a member of cluster {own}, and ZooKeeper has no cluster: correct zookeeper.connect"
        )
    if decode_cluster_id(there.data) != own:
        raise _another_cluster(found, decode_cluster_id(there.data))


def _another_cluster(found: LeftAlone, cluster_id: str) -> ConversionRefusedError:
    return ConversionRefusedError(
        f"ZooKeeper has cluster {cluster_id}, and {found.directories.home} is of cluster {found.identity.cluster_id}: name another "
        "ensemble, or another chroot behind its addresses in zookeeper.connect"
    )


async def _check_new(found: LeftAlone, zookeeper: ZooKeeper) -> None:
    """Refuses a ZooKeeper that has more than an earlier attempt wrote."""
    there, listed = await read_each(zookeeper, [GetData(paths.CLUSTER_ID), GetChildren(paths.TOPICS)])
    if isinstance(there, Data) and decode_cluster_id(there.data) != found.identity.cluster_id:
        raise _another_cluster(found, decode_cluster_id(there.data))
    await _check_unused(zookeeper)
    own = {topic.name: topic.uuid for topic in found.topics}
    names = listed.names if isinstance(listed, Children) else ()
    for name in names:
        (topic,) = await read_each(zookeeper, [GetData(paths.topic(name))])
        if isinstance(topic, Data) and decode_topic(name, topic.data).topic_id != own.get(name):
            raise ConversionRefusedError(
                f"ZooKeeper has a topic {name} that is not the one of {found.directories.home}: name another ensemble, or "
                "another chroot behind its addresses in zookeeper.connect"
            )


async def _check_unused(zookeeper: ZooKeeper) -> None:
    """Refuses a cluster that has had brokers or a controller: its state is not in these directories."""
    brokers, epoch = await read_each(zookeeper, [GetChildren(paths.BROKER_IDS), GetData(paths.CONTROLLER_EPOCH)])
    if isinstance(epoch, Data) or (isinstance(brokers, Children) and brokers.names):
        raise ConversionRefusedError(
            "brokers of a cluster run in ZooKeeper, or have run there, and this is to be the first one: name another ensemble, or "
            "another chroot behind its addresses in zookeeper.connect"
        )


def _nodes(found: LeftAlone) -> Iterator[NodeToWrite]:
    """The znodes of the cluster, in Kafka's order: parents first, and a topic's settings before the topic."""
    yield from (NodeToWrite(parent, None) for parent in paths.parents(paths.CLUSTER_ID))
    yield NodeToWrite(paths.CLUSTER_ID, encode_cluster_id(found.identity.cluster_id))
    for path in paths.MADE_AT_START:
        yield from (NodeToWrite(one, None) for one in (*paths.parents(path), path))
    state = found.state
    if state.reserved_producer_ids:
        # Every lower id may have been allocated; the next block begins above.
        block = ProducerIdBlock(found.identity.node_id, 0, state.reserved_producer_ids - 1)
        yield NodeToWrite(paths.PRODUCER_ID_BLOCK, block.encode())
    names = {"": DEFAULT_ENTITY, str(found.identity.node_id): str(found.identity.node_id)}
    for broker_id, name in names.items():
        configs = state.broker_configs.get(broker_id, {})
        yield NodeToWrite(paths.config("brokers", name), encode_config(configs))
    yield from _topic_nodes(found)


def _topic_nodes(found: LeftAlone) -> Iterator[NodeToWrite]:
    own = found.identity.node_id
    leads = PartitionStateZnode(BEFORE_ANY_CONTROLLER, own, found.leader_epoch, (own,)).encode()
    for topic in found.topics:
        # Retention must never delete the coordinators' records.
        always = {"cleanup.policy": "compact"} if topic.name in INTERNAL_TOPICS else {}
        yield NodeToWrite(paths.config("topics", topic.name), encode_config(always | topic.configs))
        indexes = range(topic.partition_count)
        assignment = TopicZnode(topic.uuid, {index: AssignedReplicas((own,)) for index in indexes})
        yield NodeToWrite(paths.topic(topic.name), assignment.encode())
        yield NodeToWrite(paths.partitions(topic.name), None)
        for index in indexes:
            yield NodeToWrite(paths.partition(topic.name, index), None)
            yield NodeToWrite(paths.partition_state(topic.name, index), leads)


async def _write(zookeeper: ZooKeeper, nodes: tuple[NodeToWrite, ...]) -> None:
    """Raises ConversionRefusedError."""
    under_way = [zookeeper.submit(Create(node.path, node.data)) for node in nodes]
    for node, written in zip(nodes, under_way, strict=True):
        result = await written
        if isinstance(result, ZooKeeperError):
            result = await _write_over(zookeeper, node)
        if isinstance(result, ZooKeeperError):
            raise ConversionRefusedError(f"ZooKeeper does not write {node.path}: {result.name}")


async def _write_over(zookeeper: ZooKeeper, node: NodeToWrite) -> Result:
    """Writes a node that exists, or may exist after a lost connection."""
    result = await ask_in_any_session(zookeeper, Create(node.path, node.data))
    if result is not ZooKeeperError.NODE_EXISTS:
        return result
    return await ask_in_any_session(
        zookeeper, GetData(node.path) if node.data is None else SetData(node.path, node.data)
    )


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """The log directories of a standalone broker, and its journal's state. The broker is stopped."""

    disk: Disk
    directories: LogDirectories
    identity: NodeIdentity
    journal: Journal
    state: JournalState

    @property
    def is_member(self) -> bool:
        """True if the directories belong to a member already."""
        return is_of_member(self.state)

    @property
    def topics(self) -> list[TopicCreated]:
        return list(self.state.topics.values())

    @property
    def leader_epoch(self) -> int:
        """Above that of every start, and so of every record."""
        return self.state.last_leader_epoch + 1

    def check(self) -> None:
        """Raises ConversionRefusedError for what no member can go on with, and DiskError for directories that are damaged."""
        directories, home = self.directories, self.directories.home
        find_partitions(directories, self.state, self.journal.path)
        if not directories.were_closed():
            raise ConversionRefusedError(
                f"{home} was not closed by a clean stop: start the broker without zookeeper.connect, and stop it with SIGTERM"
            )
        if directories.futures():
            raise ConversionRefusedError(
                f"{directories.futures()[0][1]} is of a partition that moves to another log directory: start the broker "
                "without zookeeper.connect until it has moved, or end the move"
            )
        own_settings = sorted(group for group, configs in self.state.group_configs.items() if configs)
        if own_settings:
            raise ConversionRefusedError(
                f"group {own_settings[0]} has settings of its own, and a cluster over ZooKeeper keeps none of groups: "
                "delete them on the broker before"
            )
        self._check_epochs()
        self._check_groups()

    def _check_epochs(self) -> None:
        for topic, path in self._partitions():
            starts = read_epoch_starts(self.disk, f"{path}/{LEADER_EPOCHS}")
            newest = max((one.epoch for one in starts), default=-1)
            if newest < self.leader_epoch:
                continue
            if not any(header.leader_epoch == newest for _, header, _ in _batches(self.disk, path)):
                raise DiskError(
                    f"{path}/{LEADER_EPOCHS} is damaged: it has leader epoch {newest}, which no record has, and the journal knows "
                    f"of {self.leader_epoch} starts: start the broker without zookeeper.connect, which makes the file anew, and "
                    "stop it with SIGTERM"
                )
            raise DiskError(
                f"{self.journal.path} is damaged: it knows of {self.leader_epoch} starts, and {topic.name} has records of "
                f"start {newest + 1}: restore it from a copy"
            )

    def _check_groups(self) -> None:
        """Refuses groups with members of KIP-848: over ZooKeeper they would stop without an error. Committed offsets stay."""
        members: dict[tuple[str, str], bool] = {}
        for topic, path in self._partitions():
            if topic.name == CONSUMER_OFFSETS:
                for one in _member_records(self.disk, path):
                    joined = one.subscription is not None and one.subscription.classic is None
                    members[one.group, one.member_id] = joined
        kept_back = sorted({group for (group, _), is_joined in members.items() if is_joined})
        if kept_back:
            raise ConversionRefusedError(
                f"group {kept_back[0]} has members of the consumer protocol (KIP-848), which no cluster over ZooKeeper has: "
                "stop them, or let them join with group.protocol=classic, while the broker runs without zookeeper.connect, and "
                "stop it when they have left"
            )

    def _partitions(self) -> Iterator[tuple[TopicCreated, str]]:
        """The topic and the path of each partition that has files."""
        for topic in self.topics:
            for index in range(topic.partition_count):
                path = self.directories.partition_path(topic.name, index)
                if path is not None:
                    yield topic, path


def read_left_alone(disk: Disk, directories: LogDirectories, settings: Settings) -> LeftAlone:
    """Raises ConversionRefusedError if they are not the directories of the broker that the settings name, and DiskError."""
    home, identity = directories.home, directories.identity()
    if identity is None or not disk.exists(f"{home}/{FILE_NAME}"):
        raise ConversionRefusedError(
            f"{home} is not the data directory of a broker: name the one that is to be a member"
        )
    node_id = settings.number("node.id")
    if identity.node_id != node_id:
        raise ConversionRefusedError(
            f"{home} is that of broker {identity.node_id}, which keeps its number in the cluster: give "
            f"broker.id={identity.node_id} instead of {node_id}"
        )

    def fail(error: DiskError) -> None:
        raise error

    own = read_own_checkpoint(disk, home)
    journal = Journal(disk, home, fail)
    return LeftAlone(
        disk, directories, identity, journal, read_journal(journal, 0 if own is None else own.journal_bytes)
    )


def _member_records(disk: Disk, path: str) -> Iterator[MemberRecord]:
    """Reads the member records of consumer groups from a closed partition. Skips malformed records, as a coordinator does."""
    for data, header, position in _batches(disk, path):
        with suppress(WireError):
            for record in () if header.is_control else decode_batch(data, position):
                with suppress(WireError):
                    found = groups.decode(record)
                    if isinstance(found, MemberRecord):
                        yield found


def _batches(disk: Disk, path: str) -> Iterator[tuple[bytes, BatchHeader, int]]:
    """The batches of a partition: the file, the header, and where in the file it is; of each file those that can be read."""
    for name in disk.list_directory(path):
        if offset_of(name, LOG) is not None:
            data = disk.read_file(f"{path}/{name}")
            with suppress(WireError):
                for position, header in batches(data):
                    yield data, header, position
