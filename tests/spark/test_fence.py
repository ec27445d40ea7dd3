"""Whether a micro-batch is run, skipped, or neither is safe."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.values import OffsetAndMetadata, TopicPartition
from oncelog.spark.fence import (
    METADATA_CHARACTERS_MAX,
    Batch,
    FenceError,
    FenceRecord,
    Move,
    Progress,
    decide,
    fence_metadata,
    parse_fence,
    progress_from,
)

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def batch(batch_id, *, query="q", end="end", start="start", offsets=None):
    return Batch(query, batch_id, end, start, offsets)


def progress(*fences, offsets=None):
    return Progress(fences, offsets or {})


@given(st.text(max_size=40), st.integers(0, 2**62), st.text(max_size=64))
def test_record_survives_the_metadata_of_an_offset(query_id, batch_id, offsets_digest):
    record = FenceRecord(query_id, batch_id, offsets_digest)
    assert parse_fence(record.to_metadata()) == record
    assert len(FenceRecord("x" * 36, 2**62, "f" * 64).to_metadata()) <= METADATA_CHARACTERS_MAX


@pytest.mark.parametrize(
    "metadata", ["", "x", "3", "null", "{}", '{"query":"q"}', '{"batch":"x","query":"q","end":"","oncelog":1}']
)
def test_metadata_of_others_is_not_a_record(metadata):
    assert parse_fence(metadata) is None


def test_every_partition_carries_the_record():
    record = FenceRecord("q", 4, "end")
    committed = fence_metadata(record, {A0: 7, A1: 9})
    assert committed == {A0: OffsetAndMetadata(7, record.to_metadata()), A1: OffsetAndMetadata(9, record.to_metadata())}
    assert progress_from(committed) == Progress((record,), {A0: 7, A1: 9})
    assert progress_from({A0: OffsetAndMetadata(7, "somebody else's")}) == Progress((), {})


def test_first_batch_of_a_new_query_runs():
    assert decide(progress(), batch(0)) is Move.RUN


def test_next_batch_runs():
    assert decide(progress(FenceRecord("q", 4, "old")), batch(5)) is Move.RUN


def test_batch_that_was_committed_is_skipped():
    assert decide(progress(FenceRecord("q", 4, "end")), batch(4)) is Move.SKIP
    assert decide(progress(FenceRecord("q", 4, "end")), batch(2, end="older")) is Move.SKIP


def test_batch_that_was_committed_with_other_offsets_stops():
    with pytest.raises(FenceError, match="other end offsets"):
        decide(progress(FenceRecord("q", 4, "other")), batch(4))


def test_gap_between_committed_batches_stops():
    with pytest.raises(FenceError, match="asked for"):
        decide(progress(FenceRecord("q", 4, "end")), batch(6))


def test_lost_record_of_a_running_query_stops_unless_the_user_vouches():
    with pytest.raises(FenceError, match="expired"):
        decide(progress(), batch(3))
    assert decide(progress(), batch(3), trust_checkpoint=True) is Move.RUN


def test_batch_ids_of_a_new_checkpoint_are_not_taken_for_old_ones():
    """A batch id alone would skip everything up to the old query's last micro-batch."""
    foreign = FenceRecord("other", 50, "there")
    with pytest.raises(FenceError, match="other"):
        decide(progress(foreign, offsets={A0: 9}), batch(0, offsets={A0: 0}))
    assert decide(progress(foreign, offsets={A0: 9}), batch(0, offsets={A0: 9})) is Move.RUN
    assert decide(progress(foreign), batch(0, start="there")) is Move.RUN
    assert decide(progress(foreign, offsets={A0: 9}), batch(0), trust_checkpoint=True) is Move.RUN


def test_query_that_reads_other_partitions_than_the_one_before_stops():
    foreign = FenceRecord("other", 50, "there")
    with pytest.raises(FenceError):
        decide(progress(foreign, offsets={A0: 9}), batch(0, offsets={A1: 9}))


def test_own_record_counts_even_when_older_ones_of_others_are_left():
    records = (FenceRecord("other", 50, "x"), FenceRecord("q", 4, "end"), FenceRecord("q", 3, "before"))
    assert decide(progress(*records), batch(4)) is Move.SKIP
    assert decide(progress(*records), batch(5)) is Move.RUN


@given(st.integers(0, 30), st.integers(0, 30))
def test_a_committed_batch_never_runs_again(committed_id, batch_id):
    own = progress(FenceRecord("q", committed_id, "end"))
    try:
        move = decide(own, batch(batch_id))
    except FenceError:
        return
    assert (move is Move.SKIP) == (batch_id <= committed_id)
    assert move is Move.SKIP or batch_id == committed_id + 1
