"""Compares the files in the log directories of a broker that does not run with each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from uuid import UUID

from oncelog.broker.storage.journal import FILE_NAME as JOURNAL
from oncelog.broker.storage.journal import may_be_torn
from oncelog.cli.log.coordinators import CoordinatorWatch, check_transactions
from oncelog.cli.log.directories import (
    CHECKPOINTS,
    LogDirectory,
    NodeFiles,
    PartitionKey,
    read_node,
    topic_id_of,
)
from oncelog.cli.log.stored import WriteAheadContent, read_write_ahead
from oncelog.environment import DiskError
from oncelog.log import PARTITION_METADATA, read_topic_id, uuid_text
from oncelog.log.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    OWN_CHECKPOINT,
    RECOVERY_POINTS,
    read_cleaned_offsets,
    read_identity,
    read_own_checkpoint,
)
from oncelog.log.inspection.findings import AtStart, Finding, KnownOfPartition, Report, Severity
from oncelog.log.inspection.partition import PartitionFacts, Progress, inspect_partition
from oncelog.log.inspection.read_only_disk import ReadOnlyDisk, lines_of
from oncelog.log.names import DELETED_DIRECTORY, future_partition_of, partition_directory
from oncelog.log.write_ahead import files_in

PROPERTIES = ("version", "cluster.id", "node.id", "directory.id")


@dataclass(frozen=True, slots=True)
class InspectedPartition:
    """A partition, its directory, and the facts that were read from its files."""

    key: PartitionKey
    directory: LogDirectory
    known: KnownOfPartition
    facts: PartitionFacts


@dataclass(slots=True)
class NodeFindings:
    """The findings, and the facts that a repair needs."""

    node: NodeFiles
    findings: list[Finding] = field(default_factory=list)
    partitions: list[InspectedPartition] = field(default_factory=list)
    write_ahead: WriteAheadContent = field(default_factory=WriteAheadContent)
    watch: CoordinatorWatch = field(default_factory=CoordinatorWatch)

    @property
    def damages(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity is Severity.DAMAGE]


def verify_node(
    disk: ReadOnlyDisk,
    paths: list[str],
    *,
    report: Report = lambda _: None,
    progress: Progress = lambda _: None,
    only: PartitionKey | None = None,
) -> NodeFindings:
    """Verify the directories of one node, or one partition in them. `report` is called for each finding at once."""
    found = NodeFindings(read_node(disk, paths))

    def say(finding: Finding) -> None:
        found.findings.append(finding)
        report(finding)

    _NodeVerification(disk, found, say, progress).run(only)
    return found


class _NodeVerification:
    def __init__(self, disk: ReadOnlyDisk, found: NodeFindings, say: Report, progress: Progress) -> None:
        self._disk = disk
        self._found = found
        self._node = found.node
        self._say = say
        self._progress = progress
        self._was_clean = found.node.was_clean
        self._lost_power = found.node.lost_power(disk)

    def run(self, only: PartitionKey | None) -> None:
        node = self._node
        self._check_journal()
        for directory in node.directories:
            self._check_directory(directory)
        self._check_places()
        home = node.home or next((one.path for one in node.directories if files_in(self._disk, one.path)), None)
        if home is not None:
            self._found.write_ahead = read_write_ahead(
                self._disk, home, self._partition_path(), self._say, lost_power=self._lost_power
            )
        disk = self._disk.with_patches(self._found.write_ahead.patches)
        for directory in node.directories:
            for key in directory.partitions:
                if only is None or key == only:
                    self._check_partition(disk, directory, key)
        if only is None and node.home is not None:
            self._check_whole()

    # --- what the directories say of themselves

    def _check_journal(self) -> None:
        node = self._node
        if node.home is None:
            self._check_home()
            return
        path = f"{node.home}/{JOURNAL}"
        broken, file = node.journal.broken, self._disk.open(path)
        data = file.read(0, file.size_bytes) if broken else b""
        file.close()
        for line in broken:
            is_last = line.position + len(line.data) + line.is_whole >= file.size_bytes
            is_cut = is_last or may_be_torn(data, line.position, self._disk.boot_id())
            is_torn = is_cut and not self._was_clean and (self._lost_power or not line.is_whole)
            is_known = node.own is not None and line.position < node.own.journal_bytes
            at_start = AtStart.CUTS if is_cut and not is_known else AtStart.REFUSES
            severity = Severity.PENDING if is_torn else Severity.DAMAGE
            what = "a record was interrupted" if is_torn else "the bytes are no record"
            self._say(Finding(path, what, at_start, severity, position=line.position))
        if not node.journal.records and not broken:
            self._say(Finding(path, "there is nothing in it", AtStart.REFUSES))
        elif node.journal_bytes_missing:
            what = f"its last {node.journal_bytes_missing} bytes are missing, which were durable"
            self._say(Finding(path, what, AtStart.REFUSES, position=node.journal.size_bytes))

    def _check_home(self) -> None:
        """A directory without the journal is one of several, or has lost it."""
        for directory in self._node.directories:
            if directory.partitions:
                what = "the journal, which says of what topics the partitions are, is missing: name the directory that has it"
                self._say(Finding(f"{directory.path}/{JOURNAL}", what, AtStart.REFUSES))
                return

    def _check_directory(self, directory: LogDirectory) -> None:
        self._check_identity(directory)
        for name, problem in directory.problems:
            at_start = AtStart.REBUILDS if name == HIGH_WATERMARKS else AtStart.REFUSES
            self._say(Finding(f"{directory.path}/{name}", problem, at_start))
        for name in CHECKPOINTS:
            self._check_checkpoint(directory, name)
        try:
            read_cleaned_offsets(self._disk, f"{directory.path}/{CLEANED_OFFSETS}")
        except DiskError as error:
            self._say(Finding(f"{directory.path}/{CLEANED_OFFSETS}", str(error), AtStart.REFUSES))
        if directory.path == self._node.home:
            self._check_own_checkpoint(f"{directory.path}/{OWN_CHECKPOINT}")
        for name in self._disk.list_directory(directory.path):
            if name.endswith(DELETED_DIRECTORY):
                self._pending(f"{directory.path}/{name}", "what is left of a deleted partition", AtStart.REMOVES)
            elif future_partition_of(name) is not None:
                self._pending(f"{directory.path}/{name}", "a copy on its way to here", AtStart.REBUILDS)
            elif name.endswith(".tmp"):
                self._pending(f"{directory.path}/{name}", "it was left half done", AtStart.IGNORES)

        for key in directory.left:
            self._pending(
                directory.partition_path(key), "the partition was moved to another directory", AtStart.REMOVES
            )

    def _check_own_checkpoint(self, path: str) -> None:
        if self._disk.exists(path) and read_own_checkpoint(self._disk, path.rpartition("/")[0]) is None:
            self._say(Finding(path, "the checksum is not that of the bytes", AtStart.REBUILDS))

    def _check_identity(self, directory: LogDirectory) -> None:
        path = f"{directory.path}/{META_PROPERTIES}"
        if not self._disk.exists(path):
            self._say(Finding(path, "the file is missing", AtStart.REFUSES))
            return
        try:
            identity = read_identity(self._disk, path)
        except DiskError as error:
            self._say(Finding(path, str(error), AtStart.REFUSES))
            return
        if identity.is_kafkas:
            what = "it is that of a broker of Apache Kafka over ZooKeeper"
            self._say(Finding(path, what, AtStart.REFUSES))
            return
        problem = self._properties_problem(path)
        if problem is not None:
            self._say(Finding(path, problem, AtStart.IGNORES))
        known = self._node.journal.state.log_directories
        if known and identity.directory_id not in known:
            what = f"the journal knows no directory of the id {identity.directory_id}"
            self._say(Finding(path, what, AtStart.IGNORES))

    def _properties_problem(self, path: str) -> str | None:
        names = [line.data.partition(b"=")[0].decode(errors="replace") for line in lines_of(self._disk, path)]
        unknown = [name for name in names if name not in PROPERTIES and not name.startswith("#")]
        if unknown:
            return f"there is no property {unknown[0]!r}"
        if len(set(names)) < len(names):
            return "it names a property twice"
        return None if b"version=1" in self._disk.read_file(path).splitlines() else "it is not of version 1"

    def _check_checkpoint(self, directory: LogDirectory, name: str) -> None:
        path, offsets = f"{directory.path}/{name}", directory.checkpoints.get(name)
        if offsets is None:
            if not any(one == name for one, _ in directory.problems) and directory.partitions:
                severity = Severity.DAMAGE if self._was_clean else Severity.PENDING
                at_start = AtStart.READS_AGAIN if name == RECOVERY_POINTS else AtStart.REBUILDS
                self._say(Finding(path, "the file is missing", at_start, severity))
            return
        there = set(directory.partitions)
        severity = Severity.DAMAGE if self._was_clean else Severity.PENDING
        for topic, partition in sorted(set(offsets) - there):
            what = f"it is about {partition_directory(topic, partition)}, which is not here"
            self._say(Finding(path, what, AtStart.IGNORES, severity))
        if self._was_clean:
            known = {
                key
                for key in there - set(offsets)
                if self._node.home is None or key[0] in self._node.journal.state.topics
            }
            for topic, partition in sorted(known):
                what = f"{partition_directory(topic, partition)} is not in it"
                self._say(Finding(path, what, AtStart.READS_AGAIN))
        for key, offset in offsets.items():
            if offset < 0:
                what = f"{partition_directory(*key)} has the offset {offset}"
                self._say(Finding(path, what, AtStart.IGNORES))

    def _check_places(self) -> None:
        node = self._node
        places: dict[PartitionKey, LogDirectory] = {}
        for directory in node.directories:
            for key in directory.partitions:
                if key in places:
                    what = f"the partition is in {places[key].path} too"
                    self._say(Finding(directory.partition_path(key), what, AtStart.REFUSES))
                places[key] = directory
        if node.home is None:
            return
        state = node.journal.state
        wanted = {(topic.name, index) for topic in state.topics.values() for index in range(topic.partition_count)}
        for key in sorted(set(places) - wanted):
            path = places[key].partition_path(key)
            if key[0] in state.deleted:
                self._pending(path, "the topic was deleted", AtStart.REMOVES)
            else:
                self._say(Finding(path, "the journal does not know of the partition", AtStart.REFUSES))
        self._check_missing(sorted(wanted - set(places)))

    def _check_missing(self, missing: list[PartitionKey]) -> None:
        node = self._node
        assert node.home is not None
        elsewhere = len(node.journal.state.log_directories) > len(node.directories)
        for key in missing:
            path = f"{node.home}/{partition_directory(*key)}"
            if elsewhere:
                self._pending(path, "the partition is in none of the directories that were named", AtStart.REFUSES)
                continue
            said = [directory.offset(RECOVERY_POINTS, key) for directory in node.directories]
            had_records = self._was_clean or any(said)
            severity = Severity.DAMAGE if had_records else Severity.PENDING
            at_start = AtStart.OFFLINE if any(said) else AtStart.IGNORES
            self._say(Finding(path, "the partition's directory is missing", at_start, severity))

    # --- the partitions

    def _partition_path(self) -> Callable[[UUID, int], str | None]:
        places = {key: directory for directory in self._node.directories for key in directory.partitions}
        names = {
            topic_id: key[0]
            for key, directory in places.items()
            if (topic_id := topic_id_of(self._disk, directory.partition_path(key))) is not None
        }
        # The journal knows better, where it knows a topic at all.
        known = {topic.name: topic.uuid for topic in self._node.journal.state.topics.values()}
        names = {topic_id: name for topic_id, name in names.items() if name not in known}
        names |= {topic_id: name for name, topic_id in known.items()}

        def path(topic_id: UUID, partition: int) -> str | None:
            key = (names.get(topic_id, ""), partition)
            return places[key].partition_path(key) if key in places else None

        return path

    def _check_partition(self, disk: ReadOnlyDisk, directory: LogDirectory, key: PartitionKey) -> None:
        path = directory.partition_path(key)
        known = self._node.known_of(disk, directory, key)
        topic = self._node.journal.state.topics.get(key[0])
        if topic is not None and not known.was_clean:
            vouched = self._found.write_ahead.replayed.durable_ends.get((topic.uuid, key[1]), 0)
            known = replace(known, recovery_point=max(known.recovery_point, vouched))
        watch = self._found.watch.of(key, path, self._say)
        facts = inspect_partition(disk, path, known, self._say, watch, self._progress)
        self._found.partitions.append(InspectedPartition(key, directory, known, facts))
        self._check_topic_id(path, None if topic is None else topic.uuid)
        self._check_points(directory, key, known, facts)

    def _check_topic_id(self, directory: str, topic_id: UUID | None) -> None:
        path = f"{directory}/{PARTITION_METADATA}"
        severity = Severity.DAMAGE if self._was_clean else Severity.PENDING
        if not self._disk.exists(path):
            self._say(Finding(path, "the file is missing", AtStart.REBUILDS, severity))
            return
        try:
            found = read_topic_id(self._disk, path)
        except DiskError as error:
            self._say(Finding(path, str(error), AtStart.REBUILDS, severity))
            return
        first, *others = self._disk.read_file(path).splitlines()
        if first != b"version: 0" or len(others) != 1:
            self._say(Finding(path, "it is not one topic id in version 0", AtStart.IGNORES, severity))
        if topic_id is not None and found != topic_id:
            what = f"it is of topic {uuid_text(found)}, and the journal has {uuid_text(topic_id)}"
            self._say(Finding(path, what, AtStart.OFFLINE))

    def _check_points(
        self, directory: LogDirectory, key: PartitionKey, known: KnownOfPartition, facts: PartitionFacts
    ) -> None:
        """The checkpoints of a log that was closed agree with its end; no log begins behind that."""
        name = partition_directory(*key)
        severity = Severity.DAMAGE if self._was_clean else Severity.PENDING
        for checkpoint in CHECKPOINTS:
            offset = directory.offset(checkpoint, key)
            if offset is None:
                continue
            path = f"{directory.path}/{checkpoint}"
            if checkpoint == LOG_START_OFFSETS:
                self._check_log_start(path, name, offset, known, facts, severity)
            elif known.was_clean and offset != known.recovery_point:
                what = f"{name} has the offset {offset} in it, and was closed at {known.recovery_point}"
                at_start = AtStart.OFFLINE if offset > known.recovery_point else AtStart.READS_AGAIN
                self._say(Finding(path, what, at_start, offset=offset))
            elif checkpoint == HIGH_WATERMARKS and not known.was_clean and offset > facts.end_offset:
                what = f"{name} has the offset {offset} in it, and ends at {facts.end_offset}"
                self._say(Finding(path, what, AtStart.IGNORES, severity, offset))

    def _check_log_start(
        self, path: str, name: str, offset: int, known: KnownOfPartition, facts: PartitionFacts, severity: Severity
    ) -> None:
        if offset > known.log_start_offset:
            # It is written after the other one.
            what = f"{name} begins at offset {offset} in it, and at {known.log_start_offset} in {OWN_CHECKPOINT}"
            self._say(Finding(path, what, AtStart.CORRECTS, offset=offset))
        elif offset > facts.end_offset:
            what = f"{name} begins at offset {offset} in it, and ends at {facts.end_offset}"
            at_start = AtStart.OFFLINE if known.was_clean else AtStart.REMOVES
            self._say(Finding(path, what, at_start, severity, offset))

    def _check_whole(self) -> None:
        """Checks that need all partitions."""
        node, state = self._node, self._node.journal.state
        path = f"{node.home}/{JOURNAL}"
        epoch = max((one.facts.epochs.epochs.latest for one in self._found.partitions), default=-1)
        if epoch > state.last_leader_epoch:
            what = f"it knows starts up to leader epoch {state.last_leader_epoch}, and batches have {epoch}"
            self._say(Finding(path, what, AtStart.REFUSES))
        producer_id = self._found.watch.producer_id_max
        if producer_id >= state.reserved_producer_ids and producer_id >= 0:
            what = f"it reserved producer ids below {state.reserved_producer_ids}, and {producer_id} was given out"
            self._say(Finding(path, what, AtStart.IGNORES))
        open_transactions = [
            (one.key, one.facts.directory, found)
            for one in self._found.partitions
            if not one.facts.has_damaged_batches
            for found in one.facts.producers.producers.open_transactions()
        ]
        check_transactions(self._found.watch, open_transactions, self._say, was_clean=self._was_clean)

    def _pending(self, path: str, what: str, at_start: AtStart) -> None:
        self._say(Finding(path, what, at_start, Severity.PENDING))
