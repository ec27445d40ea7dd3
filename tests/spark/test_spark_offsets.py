"""Offsets as JSON."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.values import TopicPartition
from oncelog.spark.offsets import digest, from_json, from_tree, is_offsets, to_json, to_tree, topic_ids

offset_maps = st.dictionaries(
    st.builds(TopicPartition, st.text(min_size=1), st.integers(0, 99)), st.integers(-2, 2**63 - 1)
)


@given(offset_maps)
def test_json_gives_back_the_offsets(offsets):
    assert from_json(to_json(offsets)) == offsets


def test_ids_of_topics_are_no_offsets():
    offsets, ids = {TopicPartition("a", 0): 7, TopicPartition("b", 1): 9}, {"a": uuid4(), "c": uuid4()}
    tree = to_tree(offsets, ids)
    assert tree == {"a": {"0": 7}, "b": {"1": 9}, f"a@{ids['a']}": {}}
    assert from_tree(tree) == offsets
    assert topic_ids(tree) == {"a": ids["a"]}
    assert topic_ids(to_tree(offsets)) == {}
    assert is_offsets(json.dumps(tree))
    assert digest([json.dumps(tree)]) == digest([to_json(offsets)])


@pytest.mark.parametrize("text", ["", "3", "[]", '{"a":1}', '{"a":{"x":1}}', '{"a":{"0":"1"}}', '{"a":{"0":true}}'])
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - JSON's own error is one of them
        from_json(text)
    assert not is_offsets(text)


def test_digest_depends_on_the_offsets_and_not_on_how_they_are_written():
    assert digest(['{"a":{"0":1,"1":2}}']) == digest(['{ "a": {"1": 2, "0": 1} }'])
    assert digest(['{"a":{"0":1,"1":2}}']) != digest(['{"a":{"0":1,"1":3}}'])
    assert digest(["1", "2"]) != digest(["2", "1"])
    assert digest(["-"]) != digest([])


@pytest.mark.parametrize("odd", ["0", "1", "2"])
def test_offsets_of_several_partitions_are_a_checkpoints_only_if_none_stands_for_an_end_of_its_log(odd):
    """-1 and -2 are the latest and the earliest in an option: a checkpoint has none of them."""
    offsets = {"0": 4, "1": 5, "2": 6}
    assert is_offsets(json.dumps({"a": offsets}))
    assert not is_offsets(json.dumps({"a": offsets | {odd: -1}}))
    assert not is_offsets(json.dumps({"a": offsets, "b": {odd: -2}}))
