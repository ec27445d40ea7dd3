"""The broker's own small log: which topics there are, which settings and features were changed, which producer ids were
handed out, how often it has started.

One line a record: the CRC-32C of the rest in eight hexadecimal digits, a space, the record as JSON. A line that was torn
by a crash is cut off; nothing in it was acknowledged, because an answer waits until its line is durable.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, get_args
from uuid import UUID

from oncelog.coordination import Promise, start
from oncelog.environment import Disk, DiskError
from oncelog.records import crc32c

FILE_NAME = "oncelog-metadata.jsonl"
REMEDY = "the next start needs it, so put a copy back or make it again with `oncelog log repair`"


class BrokerStarted(NamedTuple):
    """Each start is a leader epoch of its own, so that a reader notices when a crash cut off what it had read."""

    leader_epoch: int


class BootTrusted(NamedTuple):
    """All that was written since the machine booted is there. Under another boot id, what was not durable may be gone."""

    boot_id: str


class LogDirectoriesNamed(NamedTuple):
    """The log directories from this start on: the path of each by its id."""

    paths: dict[str, str]


class LogDirectoryFailed(NamedTuple):
    """Until the next start nothing is made in this directory, and nothing is deleted."""

    directory_id: str


class TopicCreated(NamedTuple):
    name: str
    topic_id: str
    partition_count: int
    configs: dict[str, str]

    @property
    def uuid(self) -> UUID:
        return UUID(self.topic_id)


class TopicDeleted(NamedTuple):
    name: str


class TopicGrown(NamedTuple):
    """Topics are named by id from here on: another one may have the name by the time this is read."""

    topic_id: str
    partition_count: int


class TopicConfigured(NamedTuple):
    """All that the topic's own settings are now."""

    topic_id: str
    configs: dict[str, str]


class ReplicasHosted(NamedTuple):
    """In a cluster: this broker has replicas of these partitions from now on."""

    topic: str
    topic_id: str
    partitions: list[int]


class ReplicasLeft(NamedTuple):
    """In a cluster: this broker has no replicas of these partitions any more."""

    topic: str
    topic_id: str
    partitions: list[int]


class BecameMember(NamedTuple):
    """A broker that was alone is a member of a cluster from now on. Its topics, its settings and the producer ids that it gave
    out are in ZooKeeper; of its partitions it has replicas.
    """


class BrokerConfigured(NamedTuple):
    """All that was changed of the broker's settings, for this broker (its id) or for every one (no id)."""

    broker_id: str
    configs: dict[str, str]


class GroupConfigured(NamedTuple):
    """All that the group's own settings are now; without any they are the broker's again."""

    group: str
    configs: dict[str, str]


class FeatureFinalized(NamedTuple):
    name: str
    level: int


class ProducerIdsReserved(NamedTuple):
    """Every producer id below this one may have been handed out."""

    next_producer_id: int


MetadataRecord = (
    BrokerStarted
    | BootTrusted
    | LogDirectoriesNamed
    | LogDirectoryFailed
    | TopicCreated
    | TopicDeleted
    | TopicGrown
    | TopicConfigured
    | ReplicasHosted
    | ReplicasLeft
    | BecameMember
    | BrokerConfigured
    | GroupConfigured
    | FeatureFinalized
    | ProducerIdsReserved
)
_KINDS: dict[str, Callable[..., MetadataRecord]] = {kind.__name__: kind for kind in get_args(MetadataRecord)}


def encode_line(record: MetadataRecord) -> bytes:
    body = json.dumps({"type": type(record).__name__, **record._asdict()}, separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32c(body), body)


def decode_line(line: bytes) -> MetadataRecord | None:
    """Read one line, without its end; None if it is not whole."""
    if len(line) < 10 or line[8:9] != b" ":
        return None
    body = line[9:]
    try:
        if int(line[:8], 16) != crc32c(body):
            return None
    except ValueError:
        return None
    fields = json.loads(body)
    return _KINDS[fields.pop("type")](**fields)


def may_be_torn(data: bytes, position: int, boot_id: str) -> bool:
    """True if a power cut may have left a journal so: the line at `position` broken, and whole ones behind it.

    It cannot if the boot is the one that was trusted last, or if a start has read on behind the line since.
    """
    before = data[:position].split(b"\n")
    trusted = [record.boot_id for line in before if isinstance(record := decode_line(line), BootTrusted)]
    has_started = BrokerStarted.__name__.encode() in data[position:]
    return bool(trusted) and trusted[-1] != boot_id and not has_started


class Journal:
    """Appends records and makes them durable; `load` gives back what there is.

    `on_failure` is told of a disk that cannot keep a record; those who wait for it go on waiting.
    """

    def __init__(self, disk: Disk, directory: str, on_failure: Callable[[DiskError], None]) -> None:
        self._disk = disk
        self._on_failure = on_failure
        self._path = f"{directory}/{FILE_NAME}"
        self._file = disk.open(self._path, create=True)
        disk.watch(self._path, REMEDY)
        self.durable_bytes = 0

    @property
    def path(self) -> str:
        return self._path

    def load(self, known_bytes: int = 0) -> Iterator[MetadataRecord]:
        """Yield every record and cut off a torn end. Raises DiskError if a line in the middle is damaged.

        So it does if the journal ends before `known_bytes`, which were durable once. A power cut may tear several lines that
        were not synced, and leave those behind a torn one whole.
        """
        data = self._file.read(0, self._file.size_bytes)
        if len(data) < known_bytes:
            raise self._cut_short(len(data), known_bytes)
        position = 0
        while position < len(data):
            end = data.find(b"\n", position)
            record = decode_line(data[position:end]) if end >= 0 else None
            if record is None:
                is_last = end in (-1, len(data) - 1)
                if not is_last and (position < known_bytes or not may_be_torn(data, position, self._disk.boot_id())):
                    raise DiskError(f"{self._path} is damaged at byte {position}: restore it from a copy")
                if position < known_bytes:
                    raise self._cut_short(position, known_bytes)
                self._file.truncate(position)
                return
            yield record
            position = end + 1

    def _cut_short(self, position: int, known_bytes: int) -> DiskError:
        return DiskError(
            f"{self._path} is damaged at byte {position}, and {known_bytes} bytes were durable: restore it from a copy"
        )

    def write(self, records: Sequence[MetadataRecord]) -> Promise[None]:
        """Write records; resolves when they are durable. A crash may keep the first of them only."""
        self._file.append([encode_line(record) for record in records])
        durable: Promise[None] = Promise()
        end = self._file.size_bytes

        def synced(error: DiskError | None) -> None:
            if error is None:
                self.durable_bytes = max(self.durable_bytes, end)
                durable.resolve(None)
            else:
                self._on_failure(error)

        self._disk.sync([self._file], synced)
        return durable

    def append_now(self, record: MetadataRecord) -> None:
        """Write a record and block until it is durable. For the start, before anybody is served."""
        self._file.append([encode_line(record)])
        self._file.sync()
        self.durable_bytes = self._file.size_bytes

    def close(self) -> None:
        self._file.sync()
        self._file.close()


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """The records to write, and what to carry out and answer once they are durable. Without records that is at once.

    A change that takes long answers later; the next one waits for it.
    """

    records: Sequence[MetadataRecord]
    carry_out: Callable[[], T | Promise[T]]

    @classmethod
    def none(cls, answer: T) -> Change[T]:
        return cls((), lambda: answer)


class Changes:
    """A change that has begun is carried out, whether or not somebody still waits for its answer."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._waiting: deque[tuple[Callable[[], Change[Any]], Promise[Any]]] = deque()
        self._is_under_way = False

    def make(self, decide: Callable[[], Change[T]]) -> Promise[T]:
        """Decide when every change before is carried out; release with the answer when this one is."""
        made: Promise[T] = Promise()
        self._waiting.append((decide, made))
        if not self._is_under_way:
            start(self._make_all())
        return made

    async def _make_all(self) -> None:
        # One flow for all that wait, and not each after the one before: there may be thousands.
        self._is_under_way = True
        while self._waiting:
            decide, made = self._waiting.popleft()
            change = decide()
            if change.records:
                await self._journal.write(change.records)
            answer = change.carry_out()
            made.resolve(await answer if isinstance(answer, Promise) else answer)
        self._is_under_way = False
