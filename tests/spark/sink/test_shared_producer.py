"""The partition of an exchange that a row goes to."""

from __future__ import annotations

import pytest
from pyspark.sql import functions

from oncelog.spark.sink.shared_producer import exchanged, partition_keys, spark_hash


@pytest.mark.parametrize("width", [1, 2, 3, 7, 64])
def test_each_partition_has_a_key_of_its_own(width):
    keys = partition_keys(width)
    assert [spark_hash(key) % width for key in keys] == list(range(width))


@pytest.mark.spark
def test_hash_is_sparks_own(spark):
    rows = spark.range(1000).select(functions.hash(functions.col("id").cast("int")).alias("hash")).collect()
    assert [row.hash for row in rows] == [spark_hash(key) for key in range(1000)]


@pytest.mark.spark
def test_rows_meet_in_the_partition_that_their_place_has(spark):
    partition_of_place = [4, 0, 3, 3, 1, 2, 0]
    rows = spark.range(0, 140, 1, 3).selectExpr("cast(id % 7 as int) place")
    met = exchanged(rows, functions.col("place"), partition_of_place, 5)
    found = met.select("place", functions.spark_partition_id().alias("partition")).distinct().collect()
    assert {row.place: row.partition for row in found} == dict(enumerate(partition_of_place))
