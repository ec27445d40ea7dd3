"""How files and directories of a log are named.

<topic>-<partition>/<offset, 20 digits>.log | .index | .timeindex | .txnindex | .snapshot
"""

from __future__ import annotations

from uuid import UUID

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
DELETED = ".deleted"
LEADER_EPOCHS = "leader-epoch-checkpoint"
DELETED_DIRECTORY = "-delete"

OFFSET_DIGITS = 20
NAME_BYTES_MAX = 255
"""What file systems take as the name of one file."""


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
    """Whether the directory of each partition has a name that file systems take."""
    return len(partition_directory(topic, partition_count - 1)) <= NAME_BYTES_MAX


def deleted_directory(topic: str, partition: int, topic_id: UUID) -> str:
    """What a deleted partition's directory is called until it is gone; a long topic name is cut, as Kafka's LocalLog does."""
    rest = f"-{partition}.{topic_id.hex}{DELETED_DIRECTORY}"
    return topic[: NAME_BYTES_MAX - len(rest)] + rest


def partition_of(name: str) -> tuple[str, int] | None:
    """The topic and partition a directory's name stands for, or None for any other directory."""
    topic, hyphen, digits = name.rpartition("-")
    if topic and hyphen and digits.isascii() and digits.isdigit():
        return topic, int(digits)
    return None
