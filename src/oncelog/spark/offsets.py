"""Offsets of many partitions as JSON, as Spark's Kafka source writes them to checkpoints and reads them as options."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from oncelog.client.values import OffsetSpec, TopicPartition

Offsets = dict[TopicPartition, int]
"""An offset per partition; where a specification is meant, also an OffsetSpec (-1 latest, -2 earliest)."""

OffsetTree = dict[str, dict[str, int]]
"""The same as nested dictionaries: {"topic": {"0": 23}}."""

IdsByTopic = Mapping[str, UUID]
"""The ids of topics by their names: a topic that was made anew has another one (KIP-516)."""

ID_SIGN = "@"
"""Between a topic's name and its id: no name has it."""

BEGINS = "begins "
"""Before the offsets at which partitions begin that a micro-batch is the first to read: no topic's name has a space."""

FIRST = "before the first micro-batch"
"""The entry of a start that is no micro-batch's end, and so is not in a checkpoint."""


def to_tree(offsets: Mapping[TopicPartition, int], topic_ids: IdsByTopic | None = None) -> OffsetTree:
    """{"topic": {"0": 23}}, topics and partitions in order, so that equal offsets give equal text.

    The id of a topic is an entry without partitions, {"topic@id": {}}. Spark's Kafka source and listeners of progress read no
    offsets there.
    """
    tree: OffsetTree = {}
    for topic, partition in sorted(offsets):
        tree.setdefault(topic, {})[str(partition)] = int(offsets[TopicPartition(topic, partition)])
    ids = topic_ids or {}
    return tree | {f"{topic}{ID_SIGN}{ids[topic]}": {} for topic in tree if topic in ids}


def topic_ids(tree: Mapping[str, Any]) -> dict[str, UUID]:
    """The ids that are in a tree of offsets. Raises ValueError."""
    named = (key.split(ID_SIGN, 1) for key in tree if ID_SIGN in key)
    return {topic: UUID(topic_id) for topic, topic_id in named}


def first_start(tree: OffsetTree) -> OffsetTree:
    """A start of a query that has no checkpoint yet."""
    return {**tree, FIRST: {}}


def is_first_start(tree: Mapping[str, Any]) -> bool:
    return FIRST in tree


def with_begins(tree: OffsetTree, begins: Mapping[TopicPartition, int]) -> OffsetTree:
    """Add to a micro-batch's end the begin of each partition that no micro-batch before it has read.

    No other place keeps the begin until the micro-batch is done: Spark asks a source in Python again for its initial offset,
    and the log may have changed since. It is an entry without partitions, as the ids of topics are.
    """
    return {**tree, f"{BEGINS}{to_json(begins)}": {}}


def begins_of(tree: Mapping[str, Any]) -> Offsets | None:
    """The begin of each partition that a micro-batch is the first to read; None where its end does not say it."""
    told = [key for key in tree if key.startswith(BEGINS)]
    return from_json(told[0].removeprefix(BEGINS)) if told else None


def from_tree(tree: Any) -> Offsets:
    """Read {"topic": {"0": 23}}. Raises ValueError for anything else."""
    if not isinstance(tree, dict):
        raise ValueError("offsets are a JSON object of topics")
    offsets: Offsets = {}
    for topic, partitions in tree.items():
        if not isinstance(partitions, dict):
            raise ValueError(f"the offsets of topic {topic!r} are a JSON object of partitions")
        for partition, offset in partitions.items():
            if not str(partition).isdecimal() or isinstance(offset, bool) or not isinstance(offset, int):
                raise ValueError(f"topic {topic!r}: {partition!r}: {offset!r} is not a partition and its offset")
            offsets[TopicPartition(topic, int(partition))] = offset
    return offsets


def to_json(offsets: Mapping[TopicPartition, int]) -> str:
    return json.dumps(to_tree(offsets), separators=(",", ":"))


def from_json(text: str) -> Offsets:
    """Read the JSON text of offsets. Raises ValueError."""
    return from_tree(json.loads(text))


def is_offsets(text: str) -> bool:
    """True if a source's line in a checkpoint holds Kafka offsets, of any connector."""
    try:
        offsets = from_json(text)
    except ValueError:
        return False
    return all(offset >= 0 for offset in offsets.values())


def digest(lines: list[str]) -> str:
    """sha256 of what a list of sources' offset lines mean: white space, the order of keys and ids of topics do not count."""
    canonical = [json.dumps(_parsed(line), separators=(",", ":"), sort_keys=True) for line in lines]
    return hashlib.sha256("\n".join(canonical).encode()).hexdigest()


def _parsed(line: str) -> Any:
    try:
        parsed = json.loads(line)
    except ValueError:
        return line
    return to_tree(from_tree(parsed)) if is_offsets(line) else parsed


SPECIFICATIONS = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}
