"""A broker that was alone becomes the first one of a cluster: what its journal has is written into ZooKeeper, and then the journal
says that it is there.

Every step may be the last one: nothing of the directories changes before ZooKeeper has all of it, and who begins again writes the
same once more. Until then the broker may go on alone; what it changes meanwhile the next attempt writes over what is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from oncelog.broker.slices import parts
from oncelog.broker.storage.journal import BecameMember
from oncelog.broker.storage.topics import INTERNAL_TOPICS
from oncelog.cluster.asking import read_each
from oncelog.cluster.converted import ConversionRefusedError, Converted
from oncelog.cluster.left_alone import LeftAlone
from oncelog.cluster.zookeeper.session import (
    Children,
    Create,
    Data,
    GetChildren,
    GetData,
    Request,
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

AT_ONCE = 100
"""So many nodes are written side by side."""
BEFORE_ANY_CONTROLLER = 0


class NodeToWrite(NamedTuple):
    path: str
    data: bytes | None


async def convert(found: LeftAlone, zookeeper: ZooKeeper) -> Converted:
    """Raises ConversionRefusedError, DiskError and ZnodeError."""
    cluster_id, broker_id = found.identity.cluster_id, found.identity.node_id
    if found.is_member:
        await _check_member(found, zookeeper)
        hosted = [one.partitions for one in found.state.hosted.values() if one.partitions]
        return Converted(cluster_id, broker_id, len(hosted), sum(map(len, hosted)), is_news=False)
    found.check()
    await _check_new(found, zookeeper)
    for some in parts(_nodes(found), AT_ONCE):
        await _write(zookeeper, some)
    # Who has read a part of it would take it for all.
    await _check_unused(zookeeper)
    found.directories.keep_names()
    found.journal.append_now(BecameMember())
    counts = [topic.partition_count for topic in found.topics]
    return Converted(cluster_id, broker_id, len(counts), sum(counts), is_news=True)


async def _check_member(found: LeftAlone, zookeeper: ZooKeeper) -> None:
    (there,) = await read_each(zookeeper, [GetData(paths.CLUSTER_ID)])
    home, own = found.directories.home, found.identity.cluster_id
    if not isinstance(there, Data):
        raise ConversionRefusedError(
            f"{home} is a member's of cluster {own}, and ZooKeeper has no cluster: correct zookeeper.connect"
        )
    if decode_cluster_id(there.data) != own:
        raise _another_cluster(found, decode_cluster_id(there.data))


def _another_cluster(found: LeftAlone, cluster_id: str) -> ConversionRefusedError:
    return ConversionRefusedError(
        f"ZooKeeper has cluster {cluster_id}, and {found.directories.home} is of cluster {found.identity.cluster_id}: name another "
        "ensemble, or another chroot behind its addresses in zookeeper.connect"
    )


async def _check_new(found: LeftAlone, zookeeper: ZooKeeper) -> None:
    """There is to be nothing but what an earlier attempt has written."""
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
    """The state of a cluster that has had a controller is not in any directory."""
    brokers, epoch = await read_each(zookeeper, [GetChildren(paths.BROKER_IDS), GetData(paths.CONTROLLER_EPOCH)])
    if isinstance(epoch, Data) or (isinstance(brokers, Children) and brokers.names):
        raise ConversionRefusedError(
            "brokers of a cluster run in ZooKeeper, or have run there, and this is to be the first one: name another ensemble, or "
            "another chroot behind its addresses in zookeeper.connect"
        )


def _nodes(found: LeftAlone) -> Iterator[NodeToWrite]:
    """What is to be in ZooKeeper, in Kafka's order: parents first, and the settings of a topic before the topic."""
    yield from (NodeToWrite(parent, None) for parent in paths.parents(paths.CLUSTER_ID))
    yield NodeToWrite(paths.CLUSTER_ID, encode_cluster_id(found.identity.cluster_id))
    for path in paths.MADE_AT_START:
        yield from (NodeToWrite(one, None) for one in (*paths.parents(path), path))
    state = found.state
    if state.reserved_producer_ids:
        # Every id below may have been given out; whoever asks next gets those behind.
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
        # Nobody may take what the coordinators keep for data that grow old.
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
    """The node is there, or nobody knows whether it is."""
    result = await _ask(zookeeper, Create(node.path, node.data))
    if result is not ZooKeeperError.NODE_EXISTS:
        return result
    return await _ask(zookeeper, GetData(node.path) if node.data is None else SetData(node.path, node.data))


async def _ask(zookeeper: ZooKeeper, request: Request) -> Result:
    """The answer, in whichever session it comes: nothing that is written here belongs to one, and all may be written twice."""
    while (result := await zookeeper.submit(request)) in (
        ZooKeeperError.CONNECTION_LOSS,
        ZooKeeperError.SESSION_EXPIRED,
    ):
        pass
    return result
