"""Sending each row of an exchange to a partition that is named by its number.

`DataFrame.repartitionById` does that since PySpark 4.1. Every release puts a row where the hash of its key says
(HashPartitioning: Murmur3 with the seed 42, modulo the number of partitions), so keys are chosen whose hashes say it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from pyspark.sql import Column, DataFrame, functions

MASK = 0xFFFFFFFF
SEED = 42
INTEGER_BYTES = 4
KEY_COLUMN = "oncelog partition key"


def exchanged(rows: DataFrame, place: Column, partition_of_place: Sequence[int], width: int) -> DataFrame:
    """Rows in `width` partitions: each in that which `partition_of_place` has for its place, a number from 0."""
    keys = partition_keys(width)
    key_of_place = functions.lit([keys[partition] for partition in partition_of_place])
    key = functions.element_at(key_of_place, place + functions.lit(1))
    # As a column of its own: an exchange that follows a coalesce directly makes Spark leave out the coalesce.
    return rows.withColumn(KEY_COLUMN, key).repartition(width, KEY_COLUMN).drop(KEY_COLUMN)


def partition_keys(width: int) -> list[int]:
    """For each of `width` partitions an integer that Spark puts there."""
    found: dict[int, int] = {}
    for key in count():
        found.setdefault(spark_hash(key) % width, key)
        if len(found) == width:
            return [found[partition] for partition in range(width)]
    raise AssertionError("every partition is some key's")


def spark_hash(key: int) -> int:
    """What Spark's function `hash` gives for an integer that is not negative."""
    word = _rotated(key * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK
    hashed = (_rotated(SEED ^ word, 13) * 5 + 0xE6546B64) & MASK
    hashed ^= INTEGER_BYTES
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & MASK
    hashed ^= hashed >> 16
    return hashed - (MASK + 1) if hashed > MASK >> 1 else hashed


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & MASK
