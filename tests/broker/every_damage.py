"""A broker in memory with a file of every kind in two log directories, and each way in which one of these files may lose something.

No case is chosen by hand: the cases follow from the files that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum
from functools import cache
from typing import NamedTuple

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.cleaned_logs import compacted
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import MINUTE, NONE, TOPIC, TV1, ProducerInMemory
from oncelog.broker.storage.journal import FILE_NAME as JOURNAL
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog.cli.log.verification import verify_node
from oncelog.environment import DiskError
from oncelog.log import AbortedTransaction, PartitionLog, ScannedBatch
from oncelog.log.inspection.read_only_disk import ReadOnlyDisk
from oncelog.log.write_ahead import PREFIX, read_entries
from oncelog.records import BatchHeader, Record, batches, build_batch, decode_batch, read_header

DIRECTORIES = ("/data", "/more")
SETTINGS = {
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
    "log_retention_ms": "-1",
    "log_cleaner_backoff_ms": "100000",
}
PLAIN, COUNTED, TABLE = "plain", "counted", "table"
"""Records without a producer id in one segment, of idempotent producers in several, and of a topic that is compacted."""
COMPACTED = (TABLE, CONSUMER_OFFSETS, TRANSACTION_STATE)
OLDER = "replaced by an older copy"
ENTRY_BYTES = {".index": 8, ".timeindex": 12, ".txnindex": 34, ".snapshot": 46}
SNAPSHOT_HEADER_BYTES = 10
FIELDS = {"base offset": (0, 3, 7), "length": (8, 10, 11), "leader epoch": (12, 14, 15), "format version": (16,)}
"""Where the bytes of a batch are that no checksum covers, some of each field."""
SMALL = ("leader-epoch-checkpoint", "partition.metadata")

Key = tuple[str, int]
End = Callable[[BrokerInMemory], None]


class Case(NamedTuple):
    """`data` is what is in the file from now on; None removes it."""

    path: str
    what: str
    data: bytes | None

    def __str__(self) -> str:
        return f"{self.path} {self.what}"

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def partition(self) -> Key | None:
        """The partition whose file it is."""
        directory = self.path.split("/")[2]
        topic, _, index = directory.rpartition("-")
        return (topic, int(index)) if topic and self.path.count("/") > 2 else None

    def is_possible(self, before: Content, after: Content) -> bool:
        """Whether it is what no start can tell (docs/recovery.md): in the log of a compacted topic a base offset that was changed
        within a gap, or an older copy of a segment, which has what a cleaning has taken since.
        """
        if self.partition is None or self.partition[0] not in COMPACTED:
            return False
        if self.what.endswith("base offset"):
            return [data[8:] for _, data in before.batches] == [data[8:] for _, data in after.batches]
        return self.what == OLDER and self.name.endswith(".log") and _latest(before) == _latest(after)


class Content(NamedTuple):
    """What is in a log: its batches as they are stored, by their offsets, and what is known besides."""

    start: int
    end: int
    batches: list[tuple[int, bytes]]
    aborted: list[tuple[int, int, int]]
    producers: list[tuple[int, int, int, int | None]]
    times: list[int | None]

    def below(self, offset: int) -> list[tuple[int, bytes]]:
        return [one for one in self.batches if one[0] < offset]


def _latest(content: Content) -> dict[bytes | None, bytes | None]:
    """The last value of each key."""
    data = [data for _, data in content.batches if not read_header(data).is_control]
    return {record.key: record.value for batch in data for record in decode_batch(batch, 0)}


class Left(NamedTuple):
    """What a broker left. `durable` is the end of what checkpoint and write-ahead log vouch for, `checkpointed` of what the first
    does alone; `older` has each file as it was earlier.
    """

    files: dict[str, bytes]
    clock: ManualClock
    content: dict[Key, Content]
    durable: dict[Key, int]
    checkpointed: dict[Key, int]
    older: dict[str, bytes]

    def with_case(self, case: Case) -> SteppedDisk:
        """The same disk, but for one file."""
        disk = SteppedDisk(0, self.clock.now_ms)
        for path, data in self.files.items():
            left = case.data if path == case.path else data
            disk.make_directory(path.rpartition("/")[0])
            if left is not None:
                disk.replace_file(path, left)
        return disk


def stopped(broker: BrokerInMemory) -> None:
    broker.core.stop()
    broker.settle()


def killed(broker: BrokerInMemory) -> None:
    """Of what was written last some is in the write-ahead log, and some nobody vouches for."""
    broker.disk.kill()


def logs(broker: BrokerInMemory) -> dict[Key, PartitionLog]:
    return {(one.topic, one.index): one.log for one in broker.core.topics.partitions()}


def content_of(log: PartitionLog) -> Content:
    """Raises DamagedLogError where a log is not what was written."""
    scanned = list(log.batches())
    found = [(one.header.base_offset, _bytes_of(one)) for one in scanned]
    headers = [one.header for one in scanned]
    times = sorted({header.max_timestamp_ms for header in headers})
    asked = [log.offset_for_timestamp(time_ms, log.log_end_offset) for time_ms in times[::4]]
    return Content(
        log.log_start_offset,
        log.log_end_offset,
        found,
        [
            (one.producer_id, one.first_offset, one.last_offset)
            for one in log.aborted_transactions(log.log_start_offset, log.log_end_offset)
            if any(_is_in(header, one) for header in headers)
        ],
        sorted(
            (
                one.producer_id,
                one.epoch,
                one.batches[-1].last_offset if one.batches else -1,
                one.transaction_first_offset,
            )
            for one in log.producers
        ),
        [None if one is None else one.offset for one in asked],
    )


def _is_in(header: BatchHeader, aborted: AbortedTransaction) -> bool:
    """Whether readers have to leave out records of the batch: a cleaning may have taken all of a transaction."""
    return (
        header.producer_id == aborted.producer_id
        and aborted.first_offset <= header.base_offset <= aborted.last_offset
        and not header.is_control
        and header.record_count > 0
    )


def _bytes_of(batch: ScannedBatch) -> bytes:
    return bytes(batch.data[batch.position_in_data : batch.position_in_data + batch.header.size_bytes])


def create(broker: BrokerInMemory, name: str, partitions: int, **configs: str) -> None:
    asked = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": asked,
    }
    assert broker.ask("create_topics", 5, topics=[topic], timeout=MINUTE).topics[0].error_code is NONE
    broker.settle()


def write(
    broker: BrokerInMemory,
    topic: str,
    value: bytes,
    *,
    key: bytes | None = None,
    producer_id: int = -1,
    sequence: int = -1,
) -> None:
    batch = build_batch(
        [Record(key, value, timestamp_ms=broker.clock.now_ms())],
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=sequence,
    )
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    answer = broker.ask("produce", 9, acks=-1, timeout=MINUTE, topic_data=data)
    assert answer.responses[0].partition_responses[0].error_code is NONE


def _small_segments(broker: BrokerInMemory) -> None:
    """Smaller than a setting may say."""
    for (topic, _), log in logs(broker).items():
        if topic == TABLE:
            log.configure(replace(compacted(), index_interval_bytes=200))
        elif topic != PLAIN:
            log.configure(replace(log.files.config, segment_bytes=1000))


def _use(broker: BrokerInMemory, producer: ProducerInMemory, producer_id: int, numbers: range) -> None:
    for number in numbers:
        write(broker, PLAIN, b"p" * 120)
        write(broker, COUNTED, b"c" * 90, producer_id=producer_id, sequence=number)
        write(broker, TABLE, b"t" * 60, key=b"k%d" % (number % 3))
        if number % 2:
            producer.write(f"{number}{'x' * 60}", number)
            producer.end(committed=number % 3 != 1)
        broker.clock.advance(10)


@cache
def left_by(end: End) -> Left:
    clock = ManualClock()
    broker = BrokerInMemory(SteppedDisk(0, clock.now_ms), clock, DIRECTORIES, **SETTINGS)
    small = {"index_interval_bytes": "200"}
    create(broker, PLAIN, 1)
    create(broker, COUNTED, 1, **small)
    create(broker, TOPIC, 2, **small)
    create(broker, TABLE, 1, cleanup_policy="compact", min_cleanable_dirty_ratio="0", **small)
    _small_segments(broker)
    producer = ProducerInMemory(broker, TV1)
    producer_id = broker.ask("init_producer_id", 4, transactional_id=None, transaction_timeout=MINUTE).producer_id
    _use(broker, producer, producer_id, range(14))
    broker.ask(
        "delete_records",
        2,
        topics=[{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 1}]}],
        timeout=MINUTE,
    )
    broker.settle()
    stopped(broker)
    older = {path: broker.disk.read_file(path) for path in broker.disk.paths()}
    broker.restart()
    _small_segments(broker)
    _use(broker, producer, producer_id, range(14, 28))
    broker.clock.advance(100_000)
    broker.settle()
    assert len(content_of(logs(broker)[TABLE, 0]).batches) < 28, "it was cleaned"
    broker.core.checkpoints.write()
    broker.settle()
    checkpointed = {key: log.durability.recovery_point for key, log in logs(broker).items()}
    _use(broker, producer, producer_id, range(28, 40))
    durable = {key: log.durability.durable_offset for key, log in logs(broker).items()}
    content = {key: content_of(log) for key, log in logs(broker).items()}
    end(broker)
    if end is stopped:
        durable = checkpointed = {key: one.end for key, one in content.items()}
    files = {path: broker.disk.read_file(path) for path in broker.disk.paths()}
    clock.forget_timers()
    return Left(files, clock, content, durable, checkpointed, older)


def cases(left: Left) -> Iterator[Case]:
    """Every file, in every way."""
    for path, data in sorted(left.files.items()):
        name = path.rpartition("/")[2]
        yield Case(path, "removed", None)
        if data:
            yield Case(path, "emptied", b"")
            yield Case(path, "zeroed", bytes(len(data)))
        for edge in edges(name, data):
            if 0 < edge < len(data):
                yield Case(path, f"cut at byte {edge}", data[:edge])
        old = left.older.get(path)
        if old is not None and old not in (data, b""):
            yield Case(path, OLDER, old)
        yield from flips(path, name, data)


def edges(name: str, data: bytes) -> list[int]:
    """Where one thing in a file ends and the next begins; those of a batch's fields and lines too."""
    suffix = f".{name.rpartition('.')[2]}"
    if name.startswith(PREFIX):
        return _write_ahead_edges(data)
    if suffix == ".log":
        return [position for position, _ in batches(data)]
    if suffix in ENTRY_BYTES:
        first = SNAPSHOT_HEADER_BYTES if suffix == ".snapshot" else 0
        return list(range(first, len(data), ENTRY_BYTES[suffix]))
    return [at + 1 for at, byte in enumerate(data) if byte == ord("\n")] or [len(data) // 2]


def _write_ahead_edges(data: bytes) -> list[int]:
    found, whole = [], len(data)
    while whole:
        entries, whole = read_entries(data[:whole], None)
        if not entries:
            break
        found.append(whole)
        whole -= 1
    return found


def flips(path: str, name: str, data: bytes) -> Iterator[Case]:
    """One bit of what no checksum covers."""
    if name.endswith(".log") and not name.startswith(PREFIX):
        for position, _ in batches(data):
            for field, places in FIELDS.items():
                for place in places:
                    for bit in (0x04, 0x80):
                        at = position + place
                        yield Case(path, f"bit {bit} of byte {at}, {field}", _flipped(data, at, bit))
    elif name in SMALL:
        for at in range(len(data)):
            yield Case(path, f"a bit of byte {at}", _flipped(data, at, 1))


def _flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


class SilentError(AssertionError):
    """Something is missing, and nobody says so; or somebody says so who is not concerned."""


class Outcome(Enum):
    """What a start made of a case. `verify` finds damage in all but the first."""

    WHOLE = "everything is served"
    OFFLINE = "a partition is offline"
    OFFLINE_AT_READ = "a partition is offline once the place is read"
    REFUSED = "the start is refused"


def judge(left: Left, case: Case) -> Outcome:
    """Start on what is left, and read all of it. Raises SilentError."""
    disk = left.with_case(case)
    found = verify_node(ReadOnlyDisk(disk), list(DIRECTORIES), only=case.partition).damages
    try:
        broker = BrokerInMemory(disk, left.clock, DIRECTORIES, **SETTINGS)
    except DiskError as error:
        outcome = _refused(case, error)
    else:
        outcome = _served(left, case, broker)
    if outcome is not Outcome.WHOLE and not found:
        raise SilentError(f"{outcome}, and verify finds nothing")
    return outcome


def _refused(case: Case, error: DiskError) -> Outcome:
    if case.partition is not None:
        raise SilentError(f"one file of one partition stops all others: {error}") from error
    if case.name not in str(error):
        raise SilentError(f"another file is named: {error}") from error
    return Outcome.REFUSED


def _served(left: Left, case: Case, broker: BrokerInMemory) -> Outcome:
    outcomes = [_partition(left, case, broker, key) for key in left.content]
    broker.settle()
    assert not broker.failures
    return next((one for one in outcomes if one is not Outcome.WHOLE), Outcome.WHOLE)


def _partition(left: Left, case: Case, broker: BrokerInMemory, key: Key) -> Outcome:
    partition = broker.core.topics.partition(*key)
    assert partition is not None
    try:
        if partition.is_offline:
            raise DiskError(partition.damage or "")
        # Of another partition's file it has nothing.
        after = content_of(partition.log) if case.partition in (key, None) else left.content[key]
    except DiskError as damage:
        # Of an older checkpoint of our own the gaps of what was cleaned since are losses.
        is_concerned = case.partition == key or (
            case.partition is None and case.name not in ("meta.properties", JOURNAL)
        )
        if not is_concerned or " at offset " not in str(damage):
            raise SilentError(f"{key}: {damage}") from damage
        return Outcome.OFFLINE if partition.is_offline else Outcome.OFFLINE_AT_READ
    vouched = left.checkpointed if case.name.startswith(PREFIX) else left.durable
    problem = _difference(left.content[key], after, vouched[key])
    if problem is not None and not case.is_possible(left.content[key], after):
        raise SilentError(f"{key} {problem}")
    return Outcome.WHOLE


def _difference(before: Content, after: Content, durable: int) -> str | None:
    """What is not as it was, below where it was durable. Behind that a start may cut off, and write what it has to."""
    if after.start != before.start:
        return f"begins at {after.start}, and began at {before.start}"
    if after.end < durable:
        return f"ends at {after.end}, and {durable} was durable"
    if after.below(durable) != before.below(durable):
        return f"has other batches below {durable}"
    if [one for one in after.aborted if one[2] < durable] != [one for one in before.aborted if one[2] < durable]:
        return "has other aborted transactions"
    if after.batches == before.batches and after[3:] != before[3:]:
        return f"has {after[3:]}, and had {before[3:]}"
    return None
