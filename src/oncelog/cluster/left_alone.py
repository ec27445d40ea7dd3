"""What a broker that was alone has left in its directories, as far as a cluster keeps it elsewhere; it does not run meanwhile.

Whatever a member would lose of it is refused here, before anything is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from oncelog import groups
from oncelog.broker.config.configuration import Settings
from oncelog.broker.coordinators.loading import JournalState, find_partitions, read_journal
from oncelog.broker.identity import is_of_member
from oncelog.broker.storage.journal import FILE_NAME, Journal, TopicCreated
from oncelog.broker.storage.topics import CONSUMER_OFFSETS
from oncelog.cluster.converted import ConversionRefusedError
from oncelog.environment import Disk, DiskError
from oncelog.groups.consumer.records import MemberRecord
from oncelog.log import LEADER_EPOCHS, LogDirectories, NodeIdentity, read_own_checkpoint
from oncelog.log.checkpoints import read_epoch_starts
from oncelog.log.names import LOG, offset_of
from oncelog.records import BatchHeader, batches, decode_batch
from oncelog.wire import WireError


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """Whose the directories are, and what their journal says."""

    disk: Disk
    directories: LogDirectories
    identity: NodeIdentity
    journal: Journal
    state: JournalState

    @property
    def is_member(self) -> bool:
        """Whether they are a member's already."""
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
        """Committed offsets stay, whatever the protocol. Members of KIP-848 could not go on, and nobody would tell them why."""
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
    """Who joined consumer groups and left them, in a partition that was closed. What cannot be read no coordinator goes by."""
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
