"""Which sources of a micro-batch are of the output's cluster."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from oncelog.client import TopicPartition
from oncelog.client.descriptions import PartitionDescription, TopicDescription
from oncelog.spark.checkpoint import CheckpointError
from oncelog.spark.offsets import to_json, to_tree
from oncelog.spark.sink.format_writers import commit_micro_batch, own_sources, stream_settings

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
EVERY = {A0: 4, A1: 5, B0: 6}
A_ID, B_ID, OLD_ID = uuid4(), uuid4(), uuid4()


def described(*partitions, ids=None):
    names = {partition.topic for partition in partitions}
    return {
        name: TopicDescription(
            name,
            (ids or {}).get(name),
            False,
            tuple(PartitionDescription(one.partition, 1, 0, (1,), (1,)) for one in partitions if one.topic == name),
        )
        for name in names
    }


@pytest.mark.parametrize("missing", list(EVERY), ids=str)
def test_source_is_of_the_cluster_that_has_all_of_its_partitions_and_not_only_some(missing):
    there = [partition for partition in EVERY if partition != missing]
    told = [to_json(EVERY), to_json({partition: EVERY[partition] for partition in there}), to_json({missing: 1})]
    assert own_sources(told, described(*EVERY)) == {0, 1, 2}
    assert own_sources(told, described(*there)) == {1}
    assert own_sources(["{}", *told], described()) == frozenset()


def test_checkpoint_that_a_relative_path_does_not_lead_to_is_refused_with_the_directory_it_was_looked_for_in(
    tmp_path, monkeypatch
):
    """Over Spark Connect Python works in a directory of the session, and not in the server's."""
    monkeypatch.chdir(tmp_path)
    for location, words in (
        ("there", f"seen from {tmp_path}.*absolute path"),
        (str(tmp_path / "there"), "in an object store"),
    ):
        arguments = {"topic": "out", "bootstrap_servers": "localhost", "checkpoint_location": location}
        with pytest.raises(CheckpointError, match=words):
            commit_micro_batch(stream_settings(arguments), [], 0)


def test_one_topic_of_several_that_is_there_by_its_id_is_enough():
    """Partitions of the other one were deleted."""
    ids = {"a": A_ID, "b": B_ID}
    told = [json.dumps(to_tree(EVERY, ids)), json.dumps(to_tree(EVERY, {"a": OLD_ID}))]
    assert own_sources(told, described(A0, A1, ids=ids)) == {0}
