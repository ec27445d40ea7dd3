"""Under which names a batch write is made, and how it is known again."""

from __future__ import annotations

import pytest

from oncelog.client.values import OffsetAndMetadata, TopicPartition
from oncelog.spark.sink.fence import FenceRecord, Role, parse_metadata, to_metadata
from oncelog.spark.sink.write_record import WriteIdError, was_written, write_entries, write_names


def test_two_runs_of_one_write_have_the_same_names_and_so_fence_each_other():
    assert write_names(None, "may") == write_names(None, "may")
    assert write_names("orders", "may") == write_names("orders", "may")


def test_each_write_id_has_a_group_of_its_own_under_one_transactional_id():
    may, june = write_names("orders", "may"), write_names("orders", "june")
    assert may.transactional_id == june.transactional_id == "orders"
    assert may.group_id != june.group_id


def test_writes_without_a_name_do_not_fence_each_other():
    assert write_names(None, None).transactional_id != write_names(None, None).transactional_id


@pytest.mark.parametrize(
    ("transactional_id", "write_id", "words"),
    [(None, "", "write_id has 1 to"), (None, "w" * 201, "not 201"), ("", None, "transactional_id is a name")],
)
def test_names_that_mean_nothing_are_refused(transactional_id, write_id, words):
    with pytest.raises(ValueError, match=words):
        write_names(transactional_id, write_id)


def test_what_was_committed_with_a_write_is_known_again():
    entries = write_entries("may", None, [TopicPartition("b", 3), TopicPartition("a", 2)])
    assert entries.keys() == {TopicPartition("a", 0)}
    assert was_written(entries, "may", None)
    assert not was_written({}, "may", None)


def test_a_write_without_rows_is_remembered_with_the_topic_that_was_named():
    assert was_written(write_entries("may", "orders", []), "may", "orders")
    assert write_entries("may", None, []) == {}
    assert write_entries(None, "orders", [TopicPartition("orders", 0)]) == {}


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "not JSON",
        '"text"',
        '{"oncelog write": 1, "id": "june"}',
        to_metadata(FenceRecord("q", 1, "d", 1), Role.INPUT),
    ],
)
def test_a_group_of_somebody_else_is_not_taken_for_the_write(metadata):
    with pytest.raises(WriteIdError, match="choose another write_id"):
        was_written({TopicPartition("a", 0): OffsetAndMetadata(5, metadata)}, "may", "a")


def test_a_write_to_another_topic_is_not_taken_for_a_repetition():
    entries = write_entries("may", "orders", [TopicPartition("orders", 0)])
    with pytest.raises(WriteIdError, match="was written to topic 'orders', so this write to 'refunds' is another one"):
        was_written(entries, "may", "refunds")


def test_the_record_of_a_write_is_no_fence_record():
    (entry,) = write_entries("may", "orders", []).values()
    assert parse_metadata(entry.metadata) is None
