"""How files and directories of a log are named.

<topic>-<partition>/<offset, 20 digits>.log | .index | .timeindex | .txnindex | .snapshot
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
DELETED = ".deleted"
LEADER_EPOCHS = "leader-epoch-checkpoint"
DELETED_DIRECTORY = "-delete"
FUTURE_DIRECTORY = "-future"
MOVED = "oncelog-moved-"

OFFSET_DIGITS = 20
UUID_DIGITS = 32
NAME_BYTES_MAX = 255
"""The longest file name that file systems take."""


def offset_name(offset: int, suffix: str) -> str:
    return f"{offset:0{OFFSET_DIGITS}d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """The offset in a file's name, if the rest of the name is `suffix`."""
    digits = name[:OFFSET_DIGITS]
    if name[OFFSET_DIGITS:] == suffix and len(digits) == OFFSET_DIGITS and digits.isascii() and digits.isdigit():
        return int(digits)
    return None


def partition_directory(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def has_room_for(topic: str, partition_count: int) -> bool:
    """True if file systems take the name of each partition's directory."""
    return len(partition_directory(topic, partition_count - 1)) <= NAME_BYTES_MAX


def deleted_directory(topic: str, partition: int, unique_id: UUID) -> str:
    """The name of a deleted partition's directory until it is gone; a long topic name is cut, as Kafka's LocalLog does."""
    return _directory_of(topic, partition, unique_id, DELETED_DIRECTORY)


def future_directory(topic: str, partition: int, unique_id: UUID) -> str:
    """The name of a future log's directory until it takes the place of the partition's."""
    return _directory_of(topic, partition, unique_id, FUTURE_DIRECTORY)


def _directory_of(topic: str, partition: int, unique_id: UUID, suffix: str) -> str:
    rest = f"-{partition}.{unique_id.hex}{suffix}"
    return topic[: NAME_BYTES_MAX - len(rest)] + rest


def future_partition_of(name: str) -> int | None:
    """The partition of a future log's directory, or None for any other; its topic may be cut."""
    rest, _, unique = name.removesuffix(FUTURE_DIRECTORY).rpartition(".")
    found = partition_of(rest)
    if found is None or not name.endswith(FUTURE_DIRECTORY) or len(unique) != UUID_DIGITS:
        return None
    return found[1]


def moved(number: int) -> str:
    """The name of the file that says how often a partition was moved: of two directories the one with the larger number counts."""
    return f"{MOVED}{number}"


def moves_in(names: Iterable[str]) -> int:
    """How often the partition with these files was moved."""
    digits = (name.removeprefix(MOVED) for name in names if name.startswith(MOVED))
    return max((int(one) for one in digits if one.isascii() and one.isdigit()), default=0)


def partition_of(name: str) -> tuple[str, int] | None:
    """The topic and partition a directory's name stands for, or None for any other directory."""
    topic, hyphen, digits = name.rpartition("-")
    if topic and hyphen and digits.isascii() and digits.isdigit():
        return topic, int(digits)
    return None
