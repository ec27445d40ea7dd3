"""Whether a micro-batch is run, skipped, or neither is safe."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.values import OffsetAndMetadata, TopicPartition
from oncelog.spark.sink.fence import (
    METADATA_CHARACTERS_MAX,
    NAME_CHARACTERS_MAX,
    Batch,
    FenceError,
    FenceProgress,
    FenceRecord,
    Role,
    Verdict,
    fence_metadata,
    parse_metadata,
    progress_from,
    to_metadata,
    topic_id_of,
)
from oncelog.spark.sink.fence import decide as decide_with

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
NOT_READ = TopicPartition("c", 0)


MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


def batch(batch_id, *, query="q", end="end", start="start", offsets=None, age_ms=0):
    return Batch(query, batch_id, end, start, offsets, age_ms)


def decide(progress, batch, retention_ms=7 * DAY_MS, *, trust_checkpoint=False):
    return decide_with(progress, batch, lambda: retention_ms, trust_checkpoint=trust_checkpoint)


def fence(query, batch_id, end, sequence=7):
    return FenceRecord(query, batch_id, end, sequence)


def progress(newest=None, offsets=None, unclear=()):
    return FenceProgress(newest, offsets or {}, frozenset(unclear))


def expired(record):
    return FenceProgress(expired=record)


@given(
    st.builds(
        FenceRecord,
        st.text(max_size=40),
        st.integers(0, 2**62),
        st.text(max_size=64),
        st.integers(0, 2**62),
        st.none() | st.integers(0, 2**62),
        st.none() | st.text(max_size=NAME_CHARACTERS_MAX),
    ),
    st.sampled_from(Role),
)
def test_record_survives_the_metadata_of_an_offset(record, role):
    assert parse_metadata(to_metadata(record, role)) == (record, role)
    longest = FenceRecord("x" * 36, 2**62, "f" * 64, 2**62, 2**62, "\N{GRINNING FACE}" * 1000)
    assert len(to_metadata(longest, role)) <= METADATA_CHARACTERS_MAX


@pytest.mark.parametrize(
    "metadata",
    ["", "x", "3", "null", "{}", '{"query":"q"}', '{"batch":"x","query":"q","end":"","oncelog":2}', '{"oncelog":2}'],
)
def test_metadata_of_others_is_not_a_record(metadata):
    assert parse_metadata(metadata) is None


def test_record_of_another_version_stops():
    """It may say that the micro-batch was committed; to take it for nothing would write it twice."""
    with pytest.raises(FenceError, match="version 1"):
        parse_metadata('{"oncelog":1,"query":"q","batch":4,"end":"x"}')


def test_every_partition_carries_the_record():
    record = fence("q", 4, "end")
    committed = fence_metadata(record, {A0: 7, A1: 9}, unclear={A1})
    metadata = {A0: to_metadata(record, Role.INPUT), A1: to_metadata(record, Role.LOWEST)}
    assert committed == {A0: OffsetAndMetadata(7, metadata[A0]), A1: OffsetAndMetadata(9, metadata[A1])}
    assert progress_from(committed) == FenceProgress(record, {A0: 7}, frozenset({A1}))
    assert progress_from({A0: OffsetAndMetadata(7, "somebody else's")}) == FenceProgress()


def test_partition_that_only_carries_the_record_is_no_input():
    record = fence("q", 4, "end")
    committed = fence_metadata(record, {}, carrier=B0)
    assert committed == {B0: OffsetAndMetadata(4, to_metadata(record, Role.CARRIER))}
    assert progress_from(committed) == FenceProgress(record)


def test_offset_says_which_topic_it_is_of_where_that_is_known():
    record, topic_id = fence("q", 4, "end"), uuid4()
    committed = fence_metadata(record, {A0: 7, B0: 9}, topic_ids={"a": topic_id})
    assert [topic_id_of(committed[item].metadata) for item in (A0, B0)] == [topic_id, None]
    assert progress_from(committed) == FenceProgress(record, {A0: 7, B0: 9})
    assert (
        len(to_metadata(FenceRecord("x" * 36, 2**62, "f" * 64, 2**62, 2**62), Role.INPUT, topic_id))
        <= METADATA_CHARACTERS_MAX
    )


@pytest.mark.parametrize(
    "metadata", ["", "x", "3", "null", "{}", "[]", '{"topic":"x"}', '{"topic":3}', '{"topic":null}']
)
def test_metadata_without_a_topic_id_names_none(metadata):
    assert topic_id_of(metadata) is None


def test_only_offsets_with_the_newest_record_count():
    """An older record is of a partition that is not read any more; a batch id says nothing about another query's."""
    older, newest = fence("old", 90, "x", sequence=11), fence("q", 4, "end", sequence=12)
    committed = {**fence_metadata(older, {A0: 7, B0: 3}), **fence_metadata(newest, {A0: 9})}
    assert progress_from(committed) == FenceProgress(newest, {A0: 9})
    assert progress_from(committed).next_sequence == 13


def test_of_several_partitions_each_counts_by_the_record_and_the_role_of_its_own():
    """One that carries an older record is not read any more, and one that is unclear makes no other unclear."""
    old, new = fence("q", 3, "old", sequence=3), fence("q", 4, "end", sequence=4)
    committed = fence_metadata(new, {A0: 7, A1: 6}, unclear={A1}) | fence_metadata(old, {B0: 9})
    found = progress_from(committed)
    assert (found.newest, found.offsets, found.unclear) == (new, {A0: 7}, {A1})


def test_first_batch_of_a_new_query_runs():
    assert decide(progress(), batch(0)) is Verdict.RUN


@pytest.mark.parametrize(("retention_ms", "age_ms"), [(7 * DAY_MS, 7 * DAY_MS), (MINUTE_MS, MINUTE_MS)])
def test_first_batch_whose_record_may_have_expired_stops_unless_the_user_vouches(retention_ms, age_ms):
    with pytest.raises(FenceError, match="may have expired"):
        decide(progress(), batch(0, age_ms=age_ms), retention_ms)
    assert decide(progress(), batch(0, age_ms=age_ms), retention_ms, trust_checkpoint=True) is Verdict.RUN
    assert decide(progress(), batch(0, age_ms=age_ms - 1), retention_ms) is Verdict.RUN


def test_nobody_is_asked_how_long_offsets_are_kept_for_a_batch_that_is_new():
    def retention_ms():
        raise AssertionError("asked")

    assert decide_with(progress(), batch(0, age_ms=MINUTE_MS - 1), retention_ms) is Verdict.RUN


def test_old_batch_whose_record_is_there_is_decided_by_that():
    assert decide(progress(fence("q", 0, "end")), batch(0, age_ms=30 * DAY_MS)) is Verdict.SKIP


def test_next_batch_runs():
    assert decide(progress(fence("q", 4, "old")), batch(5)) is Verdict.RUN


def test_batch_that_was_committed_is_skipped():
    assert decide(progress(fence("q", 4, "end")), batch(4)) is Verdict.SKIP


def test_batch_that_was_committed_with_other_offsets_stops():
    with pytest.raises(FenceError, match="other end offsets"):
        decide(progress(fence("q", 4, "other")), batch(4))


def test_batch_before_the_last_one_stops():
    """Spark repeats its last micro-batch only: an earlier one comes from an old copy of the checkpoint."""
    with pytest.raises(FenceError, match="old copy"):
        decide(progress(fence("q", 4, "end")), batch(2))


def test_gap_between_committed_batches_stops():
    with pytest.raises(FenceError, match="asked for"):
        decide(progress(fence("q", 4, "end")), batch(6))


def test_lost_record_of_a_running_query_stops_unless_the_user_vouches():
    with pytest.raises(FenceError, match="expired"):
        decide(progress(), batch(3))
    assert decide(progress(), batch(3), trust_checkpoint=True) is Verdict.RUN


def test_next_batch_runs_after_the_offsets_have_expired():
    assert decide(expired(fence("q", 4, "old")), batch(5)) is Verdict.RUN
    assert expired(fence("q", 4, "old", sequence=12)).next_sequence == 13


def test_batch_that_is_known_to_be_committed_is_skipped_after_the_offsets_have_expired():
    for trust in (False, True):
        assert decide(expired(fence("q", 4, "end")), batch(4), trust_checkpoint=trust) is Verdict.SKIP


@pytest.mark.parametrize(("batch_id", "words"), [(2, "old copy"), (4, "other end offsets"), (6, "asked for")])
def test_checkpoint_that_does_not_fit_the_last_record_stops_after_the_offsets_have_expired(batch_id, words):
    for trust in (False, True):
        with pytest.raises(FenceError, match=words):
            decide(expired(fence("q", 4, "other")), batch(batch_id), trust_checkpoint=trust)


def test_next_batch_that_was_planned_before_the_offsets_expired_stops_unless_the_user_vouches():
    """It may have been committed, and its driver died before it kept the record."""
    with pytest.raises(FenceError, match="micro-batch 5 was planned so long ago"):
        decide(expired(fence("q", 4, "old")), batch(5, age_ms=7 * DAY_MS))
    assert decide(expired(fence("q", 4, "old")), batch(5, age_ms=7 * DAY_MS), trust_checkpoint=True) is Verdict.RUN
    assert decide(expired(fence("q", 4, "old")), batch(5, age_ms=7 * DAY_MS - 1)) is Verdict.RUN


def test_last_record_of_another_query_says_nothing():
    foreign = expired(fence("other", 50, "start"))
    assert decide(foreign, batch(0)) is Verdict.RUN
    with pytest.raises(FenceError, match="expired"):
        decide(foreign, batch(51))


def test_batch_ids_of_a_new_checkpoint_are_not_taken_for_old_ones():
    """A batch id alone would skip everything up to the old query's last micro-batch."""
    foreign = fence("other", 50, "there")
    with pytest.raises(FenceError, match="other"):
        decide(progress(foreign, {A0: 9}), batch(0, offsets={A0: 0}))
    assert decide(progress(foreign, {A0: 9}), batch(0, offsets={A0: 9})) is Verdict.RUN
    assert decide(progress(foreign), batch(0, start="there")) is Verdict.RUN
    assert decide(progress(foreign, {A0: 9}), batch(0), trust_checkpoint=True) is Verdict.RUN


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (
            "ordered",
            "refunded",
            r"'ordered'.*'refunded' does not start.*transactional id and a group each.*\{query\}.*takes",
        ),
        ("ordered", "ordered", "checkpoint is lost.*full refresh.*trustCheckpoint"),
        ("x" * 500, "x" * 500, "checkpoint is lost.*full refresh.*trustCheckpoint"),
        (
            None,
            "ordered",
            r"\(other\).*'ordered' does not start.*full refresh.*second query needs another transactional id",
        ),
        (
            "ordered",
            None,
            "'ordered'.*this one does not start.*full refresh.*second query needs another transactional id",
        ),
    ],
)
def test_refusal_tells_a_second_query_from_one_that_begins_anew(before, now, words):
    newest, read = parse_metadata(to_metadata(FenceRecord("other", 5, "there", 7, query_name=before), Role.INPUT))
    assert read is Role.INPUT
    asked = replace(batch(0, offsets={A0: 0}), query_name=now)
    with pytest.raises(FenceError, match=words) as refused:
        decide(progress(newest, {A0: 9}), asked)
    assert len(str(refused.value)) < 1000


def test_partitions_that_are_new_may_start_anywhere():
    foreign = fence("other", 50, "there")
    assert decide(progress(foreign, {A0: 9}), batch(0, offsets={A0: 9, A1: 0})) is Verdict.RUN


@pytest.mark.parametrize("odd", [A0, A1, B0], ids=str)
def test_query_that_starts_elsewhere_in_one_of_several_partitions_stops(odd):
    """In that one records would be lost or repeated, whatever the others are."""
    committed = {A0: 9, A1: 5, B0: 3}
    foreign = fence("other", 50, "there")
    assert decide(progress(foreign, committed), batch(0, offsets=committed)) is Verdict.RUN
    for start in (committed[odd] - 1, committed[odd] + 1):
        with pytest.raises(FenceError, match="another query"):
            decide(progress(foreign, committed), batch(0, offsets=committed | {odd: start}))


@pytest.mark.parametrize("odd", [A0, A1, B0], ids=str)
def test_query_stops_where_one_of_several_partitions_is_unclear(odd):
    committed = {A0: 9, A1: 5, B0: 3}
    clear = {partition: offset for partition, offset in committed.items() if partition != odd}
    with pytest.raises(FenceError, match="another query"):
        decide(progress(fence("other", 50, "there"), clear, {odd}), batch(0, offsets=committed))
    with pytest.raises(FenceError, match="another query"):
        decide(progress(fence("other", 50, "there"), clear, {odd, NOT_READ}), batch(0, offsets=committed))


PARTITIONS = st.sampled_from([A0, A1, B0])
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 2))


@given(OFFSETS, st.sets(PARTITIONS), OFFSETS)
def test_foreign_query_runs_where_every_partition_that_both_know_starts_where_it_was_committed(
    committed, unclear, start
):
    committed = {partition: offset for partition, offset in committed.items() if partition not in unclear}
    try:
        runs = decide(progress(fence("other", 5, "there"), committed, unclear), batch(0, offsets=start)) is Verdict.RUN
    except FenceError:
        runs = False
    both = [partition for partition in start if partition in committed]
    starts_there = [start[partition] == committed[partition] for partition in both]
    assert runs == (bool(both) and False not in starts_there and not any(one in unclear for one in start))


def test_partition_that_two_sources_had_read_up_to_different_offsets_stops():
    foreign = fence("other", 50, "there")
    with pytest.raises(FenceError):
        decide(progress(foreign, {A0: 9}, {A1}), batch(0, offsets={A0: 9, A1: 5}))
    assert decide(progress(foreign, {A0: 9}, {A1}), batch(0, start="there", offsets={A0: 9, A1: 5})) is Verdict.RUN


def test_query_that_reads_other_partitions_than_the_one_before_stops():
    foreign = fence("other", 50, "there")
    with pytest.raises(FenceError):
        decide(progress(foreign, {A0: 9}), batch(0, offsets={A1: 9}))


def test_query_that_another_took_over_from_goes_on_only_where_that_one_stopped():
    newest = fence("other", 3, "there")
    with pytest.raises(FenceError, match="another query"):
        decide(progress(newest, {A0: 20}), batch(5, offsets={A0: 9}))
    assert decide(progress(newest, {A0: 20}), batch(5, offsets={A0: 20})) is Verdict.RUN


@given(st.integers(0, 30), st.integers(0, 30))
def test_a_committed_batch_never_runs_again(committed_id, batch_id):
    try:
        move = decide(progress(fence("q", committed_id, "end")), batch(batch_id))
    except FenceError:
        return
    assert batch_id == (committed_id if move is Verdict.SKIP else committed_id + 1)
