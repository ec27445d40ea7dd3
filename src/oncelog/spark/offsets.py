"""Offsets of many partitions as JSON, as Spark's Kafka source writes them to checkpoints and reads them as options."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from oncelog.client.values import OffsetSpec, TopicPartition

Offsets = dict[TopicPartition, int]
"""An offset per partition; where a specification is meant, also an OffsetSpec (-1 latest, -2 earliest)."""

OffsetTree = dict[str, dict[str, int]]
"""The same as nested dictionaries: {"topic": {"0": 23}}."""


def to_tree(offsets: Mapping[TopicPartition, int]) -> OffsetTree:
    """{"topic": {"0": 23}}, topics and partitions in order, so that equal offsets give equal text."""
    tree: OffsetTree = {}
    for topic, partition in sorted(offsets):
        tree.setdefault(topic, {})[str(partition)] = int(offsets[TopicPartition(topic, partition)])
    return tree


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
    """Whether a source's line in a checkpoint holds Kafka offsets, of whichever connector."""
    try:
        offsets = from_json(text)
    except ValueError:
        return False
    return all(offset >= 0 for offset in offsets.values())


def digest(lines: list[str]) -> str:
    """sha256 of what a list of sources' offset lines mean: white space and the order of keys do not count."""
    canonical = [json.dumps(_parsed(line), separators=(",", ":"), sort_keys=True) for line in lines]
    return hashlib.sha256("\n".join(canonical).encode()).hexdigest()


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return line


SPECIFICATIONS = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}
