"""What a micro-batch reads."""

from __future__ import annotations

import pytest

from oncelog.client.security import PLAINTEXT
from oncelog.client.values import TopicPartition
from oncelog.spark.checkpoint import BatchOffsets, CheckpointError
from oncelog.spark.offsets import digest, to_json
from oncelog.spark.query import Source
from oncelog.spark.sink import batch_input as module
from oncelog.spark.sink.batch_input import InputClusters, batch_input, input_clusters

PLANNED_MS = 1_795_262_445_533
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.fixture
def clusters(monkeypatch):
    """Two addresses of one cluster, and two of another."""
    ids = {"a:1": "A", "a:2": "A", "b:1": "B", "b:2": "B"}
    monkeypatch.setattr(module, "cluster_id", lambda servers, security: ids[servers])


@pytest.mark.parametrize(
    ("servers", "own", "foreign"),
    [
        (["a:1"], {0}, {}),
        (["a:2"], {0}, {}),
        (["a:1", "a:2"], {0, 1}, {}),
        (["b:1"], set(), {"b:1": (0,)}),
        ([None], set(), {}),
        ([None, "b:1", "a:2", "b:1"], {2}, {"b:1": (1, 3)}),
        (["b:2", "a:1", "b:1"], {1}, {"b:1": (0, 2)}),
    ],
)
def test_input_of_another_cluster_is_told_by_its_id_not_its_address(clusters, servers, own, foreign):
    found = input_clusters("a:1", PLAINTEXT, [Source(one) for one in servers])
    assert found == InputClusters(len(servers), frozenset(own), foreign, dict.fromkeys(foreign, PLAINTEXT))


def read(own, start, end, *, batch_id=3, foreign=None):
    found = InputClusters(len(end), frozenset(own), foreign or {})
    return batch_input(found, BatchOffsets(batch_id, start, end, PLANNED_MS), start)


def test_sources_of_one_cluster_are_taken_together():
    lines = ['{"a":{"0":5,"1":6}}', '{"b":{"0":1}}']
    ends = ['{"a":{"0":7,"1":6}}', '{"b":{"0":4}}']
    found = read({0, 1}, lines, ends)
    assert found.start == {A0: 5, A1: 6, B0: 1}
    assert found.end == {A0: 7, A1: 6, B0: 4}
    assert not found.unclear
    assert found.offset_count == 5
    assert (found.start_digest, found.end_digest) == (digest(lines), digest(ends))


def test_partition_that_two_sources_read_up_to_different_offsets_is_unclear():
    found = read({0, 1}, ['{"a":{"0":5,"1":5}}'] * 2, ['{"a":{"0":9,"1":9}}', '{"a":{"0":7,"1":9}}'])
    assert found.end == {A0: 7, A1: 9}
    assert found.unclear == {A0}


def test_offsets_of_other_clusters_are_kept_apart():
    ends = ['{"a":{"0":7}}', '{"a":{"0":2}}']
    found = read({0}, ['{"a":{"0":5}}', '{"a":{"0":1}}'], ends, foreign={"b:1": (1,)})
    assert found.start is None
    assert found.end == {A0: 7}
    assert found.foreign_end == {"b:1": {A0: 2}}
    assert found.end_digest == digest(ends)


def test_source_without_kafka_offsets_counts_in_the_digest_alone():
    found = read({1}, ["3", '{"a":{"0":5}}'], ["4", '{"a":{"0":7}}'])
    assert found.start is None
    assert found.end == {A0: 7}
    assert found.offset_count is None
    assert found.start_digest == digest(["3", '{"a":{"0":5}}'])


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_of_several_sources_one_that_is_elsewhere_or_not_kafkas_leaves_the_start_open(odd):
    """What starts where the committed offsets end can be told of all of them, or of none."""
    starts = [f'{{"{topic}":{{"0":5}}}}' for topic in "abc"]
    ends = [f'{{"{topic}":{{"0":7}}}}' for topic in "abc"]
    assert read({0, 1, 2}, starts, ends).start == {TopicPartition(topic, 0): 5 for topic in "abc"}
    elsewhere = read({0, 1, 2} - {odd}, starts, ends)
    assert elsewhere.start is None
    assert elsewhere.offset_count == 6
    unknown = [None if place == odd else line for place, line in enumerate(starts)]
    assert read({0, 1, 2}, unknown, ends).start is None
    assert read({0, 1, 2}, unknown, ends).start_digest is None
    files = ["4" if place == odd else line for place, line in enumerate(ends)]
    assert read({0, 1, 2}, starts, files).offset_count is None


@pytest.mark.parametrize("odd", [A0, A1, B0], ids=str)
def test_of_several_partitions_those_alone_are_unclear_that_were_read_up_to_different_offsets(odd):
    ends = {A0: 9, A1: 8, B0: 7}
    found = read({0, 1, 2}, ["{}"] * 3, [to_json(ends), to_json(ends | {odd: 3}), to_json(ends)])
    assert found.end == ends | {odd: 3}
    assert found.unclear == {odd}


def test_first_batch_starts_where_its_plan_says():
    found = batch_input(
        InputClusters(1, frozenset({0}), {}), BatchOffsets(0, [None], ['{"a":{"0":7}}'], PLANNED_MS), ['{"a":{"0":5}}']
    )
    assert found.start == {A0: 5}
    unknown = batch_input(
        InputClusters(1, frozenset({0}), {}), BatchOffsets(0, [None], ['{"a":{"0":7}}'], PLANNED_MS), [None]
    )
    assert unknown.start is None
    assert unknown.start_digest is None


def test_checkpoint_of_another_number_of_sources_is_an_error():
    with pytest.raises(CheckpointError, match="2 sources"):
        batch_input(InputClusters(1, frozenset({0}), {}), BatchOffsets(1, ["1", "1"], ["2", "2"], PLANNED_MS), [])
