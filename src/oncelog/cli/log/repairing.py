"""Repairs the log directories of a broker that does not run, in an order that may be interrupted after any step.

First the write-ahead log is written into the partitions, as at a start, because the positions of batches may change afterwards.
Then come the partitions, one by one; then the journal and the checkpoints, which describe the repaired partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from oncelog.broker.storage.journal import FILE_NAME as JOURNAL
from oncelog.broker.storage.journal import (
    BrokerStarted,
    MetadataRecord,
    ProducerIdsReserved,
    TopicCreated,
    TopicGrown,
    encode_line,
)
from oncelog.broker.storage.topics import INTERNAL_TOPICS
from oncelog.cli.log.directories import CHECKPOINTS, LogDirectory, PartitionKey, topic_id_of
from oncelog.cli.log.verification import InspectedPartition, NodeFindings
from oncelog.environment import Disk, DiskError
from oncelog.log import PARTITION_METADATA, uuid_text
from oncelog.log.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    OWN_CHECKPOINT,
    RECOVERY_POINTS,
    NodeIdentity,
    read_identity,
    write_identity,
    write_partition_offsets,
)
from oncelog.log.inspection.planning import PartitionPlan, plan_partition
from oncelog.log.inspection.rebuilding import Aside, repair_partition
from oncelog.log.names import LOG, SNAPSHOT, offset_name, offset_of
from oncelog.log.producer_snapshots import encode_snapshot
from oncelog.transactions import DECIDED, ONGOING

PRODUCER_ID_BLOCK = 1000
COMPACTED = {"cleanup.policy": "compact"}


@dataclass(slots=True)
class NodePlan:
    """The steps of the repair of a node."""

    found: NodeFindings
    partitions: list[tuple[InspectedPartition, PartitionPlan]] = field(default_factory=list)
    missing: list[tuple[LogDirectory, PartitionKey, int]] = field(default_factory=list)
    """Partitions without a directory, and the offset at which they begin anew."""
    journal: list[MetadataRecord] | None = None
    """The records of the new journal; None if the old one stays."""
    added: list[MetadataRecord] = field(default_factory=list)


def plan_node(disk: Disk, found: NodeFindings, new_id: Callable[[], UUID]) -> NodePlan:
    plan = NodePlan(found)
    damaged = [finding.path for finding in found.damages]
    for one in found.partitions:
        directory = one.facts.directory
        if any(path == directory or path.startswith(f"{directory}/") for path in damaged):
            plan.partitions.append((one, plan_partition(disk, one.facts, one.known, _ongoing(found, one.key))))
    plan.added = _missing_records(disk, found, new_id)
    if plan.added or found.node.journal.broken or found.node.home is None:
        plan.journal = [*found.node.journal.records, *plan.added]
    plan.missing = _missing_partitions(found, damaged)
    return plan


def _ongoing(found: NodeFindings, key: PartitionKey) -> Callable[[int], bool]:
    producers = {
        metadata.producer_id
        for metadata in found.watch.transactions.values()
        if metadata.status in {ONGOING, *DECIDED} and key in metadata.partitions
    }
    return producers.__contains__


def _missing_records(disk: Disk, found: NodeFindings, new_id: Callable[[], UUID]) -> list[MetadataRecord]:
    """The records that the journal lacks, made from the directories."""
    node, state = found.node, found.node.journal.state
    added: list[MetadataRecord] = []
    counts: dict[str, int] = {}
    ids: dict[str, UUID] = {}
    cleaned = {name for directory in node.directories for name, _ in directory.cleaned}
    for directory in node.directories:
        for key in directory.partitions:
            if key[0] in state.deleted:
                continue
            counts[key[0]] = max(counts.get(key[0], 0), key[1] + 1)
            topic_id = topic_id_of(disk, directory.partition_path(key))
            if topic_id is not None:
                ids.setdefault(key[0], topic_id)
    for name, count in sorted(counts.items()):
        topic = state.topics.get(name)
        if topic is None:
            # By default retention would delete what the topic was to keep.
            is_compacted = name in INTERNAL_TOPICS or name in cleaned
            configs = dict(COMPACTED) if is_compacted else {}
            topic_id = ids.get(name) or new_id()
            added.append(TopicCreated(name=name, topic_id=str(topic_id), partition_count=count, configs=configs))
        elif topic.partition_count < count:
            added.append(TopicGrown(topic_id=topic.topic_id, partition_count=count))
    epoch = max((one.facts.epochs.epochs.latest for one in found.partitions), default=-1)
    if epoch > state.last_leader_epoch:
        added.append(BrokerStarted(leader_epoch=epoch))
    next_producer_id = found.watch.producer_id_max + 1
    if next_producer_id > state.reserved_producer_ids:
        blocks = -(-next_producer_id // PRODUCER_ID_BLOCK)
        added.append(ProducerIdsReserved(next_producer_id=blocks * PRODUCER_ID_BLOCK))
    return added


def _missing_partitions(found: NodeFindings, damaged: list[str]) -> list[tuple[LogDirectory, PartitionKey, int]]:
    node = found.node
    if node.home is None:
        return []
    home = next(directory for directory in node.directories if directory.path == node.home)
    missing = []
    for topic in node.journal.state.topics.values():
        for index in range(topic.partition_count):
            key = (topic.name, index)
            if home.partition_path(key) in damaged and not any(key in one.partitions for one in node.directories):
                points = [directory.offset(RECOVERY_POINTS, key) or 0 for directory in node.directories]
                missing.append((home, key, max(points)))
    return missing


def repair_node(disk: Disk, plan: NodePlan, new_id: Callable[[], UUID]) -> list[str]:
    """Carry out a plan; return the directories in which what was changed or removed is kept. Raises DiskError."""
    node = plan.found.node
    asides = {directory.path: Aside(disk, directory.path) for directory in node.directories}
    _absorb_write_ahead(disk, plan, asides)
    for one, partition_plan in plan.partitions:
        repair_partition(disk, partition_plan, asides[one.directory.path])
    for directory, key, offset in plan.missing:
        _begin_partition(disk, directory.partition_path(key), offset, was_clean=node.was_clean)
    home = node.home or node.directories[0].path
    if disk.exists(f"{home}/{OWN_CHECKPOINT}"):
        # It says how long the journal was; the next start writes it again.
        asides[home].move(f"{home}/{OWN_CHECKPOINT}")
    if plan.journal is not None:
        path = f"{home}/{JOURNAL}"
        if disk.exists(path):
            asides[home].copy(path)
        disk.replace_file(path, b"".join(encode_line(record) for record in plan.journal))
    _write_identities(disk, plan, asides, new_id)
    _write_topic_ids(disk, plan)
    for directory in node.directories:
        _write_checkpoints(disk, plan, directory, asides[directory.path])
    return [aside.path for aside in asides.values() if aside.count]


def _absorb_write_ahead(disk: Disk, plan: NodePlan, asides: dict[str, Aside]) -> None:
    """Put back what the write-ahead log has, note what it vouches for, and put it aside."""
    found, home = plan.found, plan.found.write_ahead.home
    if home is None or not found.write_ahead.replayed.files:
        return
    for path, patches in found.write_ahead.patches.items():
        file = disk.open(path)
        for position, data in patches:
            file.write(position, data)
        file.sync()
        file.close()
    for directory in found.node.directories:
        points = {
            one.key: min(one.known.recovery_point, one.facts.end_offset)
            for one in found.partitions
            if one.directory is directory
        }
        path = f"{directory.path}/{RECOVERY_POINTS}"
        if disk.exists(path):
            asides[directory.path].copy(path)
        write_partition_offsets(disk, path, points)
    for path in found.write_ahead.replayed.files:
        asides[home].move(path)
    # Their new names are durable before the places of batches change on another disk.
    disk.replace_file(f"{home}/{RECOVERY_POINTS}", disk.read_file(f"{home}/{RECOVERY_POINTS}"))


def _begin_partition(disk: Disk, path: str, offset: int, *, was_clean: bool) -> None:
    """An empty log that begins where the one that is lost ended: no offset is given out twice."""
    disk.make_directory(path)
    file = disk.open(f"{path}/{offset_name(offset, LOG)}", create=True)
    file.sync()
    file.close()
    if was_clean and offset:
        disk.replace_file(f"{path}/{offset_name(offset, SNAPSHOT)}", encode_snapshot(()))


def _write_identities(disk: Disk, plan: NodePlan, asides: dict[str, Aside], new_id: Callable[[], UUID]) -> None:
    """Rewrite each damaged meta.properties, with ids from the other directories and the journal."""
    node, damaged = plan.found.node, {finding.path for finding in plan.found.damages}
    known: list[NodeIdentity] = []
    sound: list[NodeIdentity] = []
    for directory in node.directories:
        try:
            identity = read_identity(disk, f"{directory.path}/{META_PROPERTIES}")
        except DiskError:
            continue
        known.append(identity)
        if f"{directory.path}/{META_PROPERTIES}" not in damaged:
            sound.append(identity)
    ids = node.journal.state.log_directories
    free = [one for one in ids if one not in {identity.directory_id for identity in sound}]
    for directory in node.directories:
        path = f"{directory.path}/{META_PROPERTIES}"
        if path not in damaged:
            continue
        if disk.exists(path):
            asides[directory.path].copy(path)
        cluster_id = known[0].cluster_id if known else uuid_text(new_id())
        node_id = known[0].node_id if known else 1
        own = next((one for one in free if ids[one] == directory.path or len(free) == 1), None)
        directory_id = own or uuid_text(new_id())
        write_identity(disk, path, NodeIdentity(cluster_id, node_id, directory_id))


def _write_topic_ids(disk: Disk, plan: NodePlan) -> None:
    damaged = {finding.path for finding in plan.found.damages}
    topics = dict(plan.found.node.journal.state.topics)
    topics |= {record.name: record for record in plan.added if isinstance(record, TopicCreated)}
    places = [(one.facts.directory, one.key) for one in plan.found.partitions]
    places += [(directory.partition_path(key), key) for directory, key, _ in plan.missing]
    new = {directory.partition_path(key) for directory, key, _ in plan.missing}
    for directory, key in places:
        path = f"{directory}/{PARTITION_METADATA}"
        if key[0] in topics and (path in damaged or directory in new):
            topic_id = uuid_text(topics[key[0]].uuid)
            disk.replace_file(path, f"version: 0\ntopic_id: {topic_id}".encode())


def _write_checkpoints(disk: Disk, plan: NodePlan, directory: LogDirectory, aside: Aside) -> None:
    """Write the recovery point, log start offset and high watermark of each partition in a directory."""
    repaired = {one.key: one_plan for one, one_plan in plan.partitions}
    cleaned = f"{directory.path}/{CLEANED_OFFSETS}"
    if any(finding.path == cleaned for finding in plan.found.damages):
        # Without it the next cleaning reads every segment again.
        aside.move(cleaned)
    points: dict[str, dict[PartitionKey, int]] = {name: {} for name in CHECKPOINTS}
    for one in plan.found.partitions:
        if one.directory is not directory:
            continue
        end, durable = one.facts.end_offset, one.known.recovery_point
        if one.key in repaired:
            end = _end_of(disk, one, repaired[one.key])
            durable = end
        if plan.found.node.was_clean:
            durable = end
        first = _first_offset(disk, one.facts.directory)
        begins = one.known.log_start_offset
        watermark = directory.offset(HIGH_WATERMARKS, one.key)
        points[RECOVERY_POINTS][one.key] = min(durable, end)
        points[LOG_START_OFFSETS][one.key] = min(max(begins, first), end)
        is_at_end = watermark is None or plan.found.node.was_clean
        points[HIGH_WATERMARKS][one.key] = end if is_at_end or watermark is None else min(max(watermark, 0), end)
    for at, key, offset in plan.missing:
        if at is directory:
            for name in CHECKPOINTS:
                points[name][key] = offset
    for name, offsets in points.items():
        path = f"{directory.path}/{name}"
        if directory.checkpoints.get(name) == offsets and disk.exists(path):
            continue
        if disk.exists(path):
            aside.copy(path)
        write_partition_offsets(disk, path, offsets)


def _end_of(disk: Disk, one: InspectedPartition, plan: PartitionPlan) -> int:
    """A log that was cut ends where the cut is."""
    if plan.cut_from is None:
        return plan.end_offset if plan.facts.segments else one.known.recovery_point
    cut = next(
        damage.first_offset
        for segment in plan.facts.segments
        for damage in segment.damages
        if (segment.path, damage.position) == plan.cut_from
    )
    return cut


def _first_offset(disk: Disk, directory: str) -> int:
    bases = [offset_of(name, LOG) for name in disk.list_directory(directory)]
    return min((base for base in bases if base is not None), default=0)
