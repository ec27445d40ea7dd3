"""The log directories of a member change hands: from a broker of Apache Kafka over ZooKeeper to one of oncelog, and back.

The logs and their checkpoints are the same bytes for both. What differs is `meta.properties`, by whose version each knows its own,
and that only oncelog keeps which replicas are there (the journal). The cluster hears nothing of it: the next broker of this
number has the same replicas.

What says whose a directory is changes last where it becomes oncelog's, and first where it becomes Kafka's: in between neither
starts, and the same once more completes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from uuid import UUID

from oncelog.broker.coordinators.loading import HostedReplicas, JournalState, journal_state
from oncelog.broker.storage.journal import (
    FILE_NAME,
    BrokerStarted,
    MetadataRecord,
    ReplicasHosted,
    decode_line,
    encode_line,
)
from oncelog.cluster.conversion import ConversionRefusedError, Converted
from oncelog.environment import Disk, Random
from oncelog.log import OWN_CHECKPOINT, PARTITION_METADATA, DataDirectory, NodeIdentity, read_topic_id, uuid_text
from oncelog.log.checkpoints import topic_id_file
from oncelog.log.log_directories import RESERVE
from oncelog.log.names import partition_directory
from oncelog.log.write_ahead import files_in


def take_from_kafka(disk: Disk, directories: Sequence[DataDirectory], random: Random) -> Converted:
    """Raises ConversionRefusedError, and DiskError."""
    identities = _identities(directories)
    hosted = _replicas(disk, directories)
    done = _outcome(identities, hosted, is_new=any(one.is_kafkas for one in identities))
    if not done.is_new:
        _journal_state(disk, directories)
        return done
    _check_moves(directories)
    _check_closed(directories, "start Apache Kafka on it, and stop it with SIGTERM")
    home = directories[0].path
    for directory in directories:
        for stale in (OWN_CHECKPOINT, FILE_NAME):
            disk.remove(f"{directory.path}/{stale}")
    records: list[MetadataRecord] = [BrokerStarted(leader_epoch=0)]
    records += [
        ReplicasHosted(topic=name, topic_id=str(topic_id), partitions=sorted(indexes))
        for (name, topic_id), indexes in hosted.items()
    ]
    disk.replace_file(f"{home}/{FILE_NAME}", b"".join(map(encode_line, records)))
    for directory, identity in zip(directories, identities, strict=True):
        if identity.is_kafkas:
            directory.write_identity(NodeIdentity(identity.cluster_id, identity.node_id, uuid_text(random.uuid())))
    return done


def give_to_kafka(disk: Disk, directories: Sequence[DataDirectory]) -> Converted:
    """Raises ConversionRefusedError, and DiskError."""
    identities = _identities(directories)
    is_new = not all(one.is_kafkas for one in identities)
    if is_new:
        _check_closed(directories, "start the broker on it, and stop it with SIGTERM")
        _check_moves(directories)
        _name_topics(disk, directories, _hosted(disk, directories))
        for directory, identity in zip(directories, identities, strict=True):
            directory.write_identity(identity._replace(is_kafkas=True))
    for directory in directories:
        for own in (OWN_CHECKPOINT, FILE_NAME, RESERVE):
            disk.remove(f"{directory.path}/{own}")
    return _outcome(identities, _replicas(disk, directories), is_new=is_new)


def _identities(directories: Sequence[DataDirectory]) -> list[NodeIdentity]:
    found = []
    for directory in directories:
        identity = directory.identity()
        if identity is None:
            raise ConversionRefusedError(
                f"{directory.path} is not the log directory of a broker: it has no meta.properties"
            )
        found.append(identity)
        if (identity.cluster_id, identity.node_id) != (found[0].cluster_id, found[0].node_id):
            raise ConversionRefusedError(
                f"{directories[0].path} is of broker {found[0].node_id} of cluster {found[0].cluster_id}, and {directory.path} of "
                f"broker {identity.node_id} of cluster {identity.cluster_id}: name the directories of one broker"
            )
    return found


def _replicas(disk: Disk, directories: Sequence[DataDirectory]) -> dict[tuple[str, UUID], set[int]]:
    """The partitions that are there, by the topics that their own files name."""
    found: defaultdict[tuple[str, UUID], set[int]] = defaultdict(set)
    for directory in directories:
        for name, index in directory.partitions():
            path = f"{directory.partition_path(name, index)}/{PARTITION_METADATA}"
            if not disk.exists(path):
                raise ConversionRefusedError(
                    f"{path} is missing: Apache Kafka 3.9 writes it when it starts with inter.broker.protocol.version=3.9"
                )
            topic = name, read_topic_id(disk, path)
            if index in found[topic]:
                raise ConversionRefusedError(
                    f"partition {partition_directory(name, index)} is in two log directories: move one of them to somewhere else"
                )
            found[topic].add(index)
    return dict(found)


def _outcome(
    identities: Sequence[NodeIdentity], hosted: dict[tuple[str, UUID], set[int]], *, is_new: bool
) -> Converted:
    first = identities[0]
    return Converted(first.cluster_id, first.node_id, len(hosted), sum(map(len, hosted.values())), is_new)


def _check_closed(directories: Sequence[DataDirectory], how: str) -> None:
    for directory in directories:
        if not directory.was_closed:
            raise ConversionRefusedError(f"{directory.path} was not closed by a clean stop: {how}")


def _check_moves(directories: Sequence[DataDirectory]) -> None:
    for directory in directories:
        if directory.futures():
            raise ConversionRefusedError(
                f"{directory.futures()[0]} is of a partition that moves to another log directory: let the broker complete the move"
            )


def _hosted(disk: Disk, directories: Sequence[DataDirectory]) -> dict[UUID, HostedReplicas]:
    """The replicas that the journal knows, when everything is in the logs' own files."""
    state = _journal_state(disk, directories)
    for directory in directories:
        if files_in(disk, directory.path):
            raise ConversionRefusedError(
                f"{directory.path} has a write-ahead log: start the broker on it, and stop it with SIGTERM"
            )
    return state.hosted


def _journal_state(disk: Disk, directories: Sequence[DataDirectory]) -> JournalState:
    """The state of a member's journal. Refuses a standalone broker: Kafka would not find its topics in ZooKeeper."""
    homes = [directory for directory in directories if directory.has(FILE_NAME)]
    if len(homes) != 1:
        raise ConversionRefusedError(
            f"{FILE_NAME} is in {len(homes)} of the directories: name all those of one broker, of oncelog or of Apache Kafka "
            "over ZooKeeper"
        )
    home = homes[0].path
    lines = disk.read_file(f"{home}/{FILE_NAME}").splitlines()
    state = journal_state(record for line in lines if (record := decode_line(line)) is not None)
    if state.topics:
        raise ConversionRefusedError(
            f"{home} belongs to a standalone broker: convert it with `oncelog cluster convert` first"
        )
    return state


def _name_topics(disk: Disk, directories: Sequence[DataDirectory], hosted: Mapping[UUID, HostedReplicas]) -> None:
    """Kafka goes by these files. Ours are made without a sync, for our brokers go by the journal."""
    ids = {(one.topic, index): topic_id for topic_id, one in hosted.items() for index in one.partitions}
    for directory in directories:
        for key in directory.partitions():
            if key in ids:
                disk.replace_file(f"{directory.partition_path(*key)}/{PARTITION_METADATA}", topic_id_file(ids[key]))
