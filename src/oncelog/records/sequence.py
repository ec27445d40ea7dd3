"""Sequence numbers count a producer's records in one partition. After 2147483647 comes 0; no sequence is negative."""

from __future__ import annotations

SEQUENCE_MAX = 2**31 - 1
NO_SEQUENCE = -1


def next_sequence(sequence: int, count: int = 1) -> int:
    """The sequence `count` records after `sequence`. What follows NO_SEQUENCE is 0."""
    return (sequence + count) & SEQUENCE_MAX


def sequence_before(sequence: int, count: int = 1) -> int:
    """The sequence `count` records before `sequence`."""
    return (sequence - count) & SEQUENCE_MAX
