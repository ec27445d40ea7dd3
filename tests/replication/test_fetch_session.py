"""KIP-227, the follower's end."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from oncelog.replication import FollowerFetchSession, PartitionFetch
from oncelog.replication.fetch_session import TopicPartition
from oncelog.wire import ErrorCode

A, B = ("a", 0), ("b", 0)
ID, OTHER_ID = UUID(int=1), UUID(int=2)


def asked(offset: int, topic_id: UUID = ID) -> PartitionFetch:
    return PartitionFetch(topic_id, offset, 0, 1000, 3, 3)


def begun() -> FollowerFetchSession:
    session = FollowerFetchSession()
    first = session.build({A: asked(0), B: asked(0)})
    assert first is not None
    assert (first.session_id, first.session_epoch, set(first.partitions)) == (0, 0, {A, B})
    session.answered(first, ErrorCode.none, 77)
    return session


def test_later_requests_name_what_has_changed_and_forget_what_is_not_asked_for() -> None:
    session = begun()
    request = session.build({A: asked(5), B: asked(0)})
    assert request == (77, 1, {A: asked(5)}, ())
    session.answered(request, ErrorCode.none, 77)
    request = session.build({A: asked(5)})
    assert request == (77, 2, {}, ((B, ID),))
    session.answered(request, ErrorCode.none, 77)
    assert session.build({A: asked(5), B: asked(7)}) == (77, 3, {B: asked(7)}, ())


def test_topic_that_was_made_anew_is_forgotten_under_its_old_id() -> None:
    session = begun()
    request = session.build({A: asked(0, OTHER_ID), B: asked(0)})
    assert request == (77, 1, {A: asked(0, OTHER_ID)}, ((A, ID),))


def test_nothing_is_sent_for_no_partitions_but_to_forget_the_last() -> None:
    assert FollowerFetchSession().build({}) is None
    session = begun()
    request = session.build({})
    assert request == (77, 1, {}, ((A, ID), (B, ID)))
    session.answered(request, ErrorCode.none, 77)
    assert session.build({}) is None


def test_errors_begin_another_session_and_end_the_one_there_may_be() -> None:
    for error, session_id in ((ErrorCode.fetch_session_id_not_found, 0), (ErrorCode.invalid_fetch_session_epoch, 77)):
        session = begun()
        request = session.build({A: asked(5)})
        assert request is not None
        session.answered(request, error, 0)
        assert session.build({A: asked(5), B: asked(1)}) == (session_id, 0, {A: asked(5), B: asked(1)}, ())
    session = begun()
    session.build({A: asked(5)})
    session.lost()
    assert session.build({A: asked(5)}) == (77, 0, {A: asked(5)}, ())


def test_leader_without_room_for_a_session_is_asked_in_full_each_time() -> None:
    session = FollowerFetchSession()
    for _ in range(2):
        request = session.build({A: asked(0)})
        assert request == (0, 0, {A: asked(0)}, ())
        session.answered(request, ErrorCode.none, 0)


PARTITIONS = st.sampled_from([("a", index) for index in range(4)])
WANTED = st.dictionaries(PARTITIONS, st.builds(asked, st.integers(0, 2), st.sampled_from([ID, OTHER_ID])))


@given(st.lists(WANTED, max_size=8))
def test_request_is_the_same_whether_all_is_given_or_what_may_have_changed(
    rounds: list[dict[TopicPartition, PartitionFetch]],
) -> None:
    whole, changes = begun(), begun()
    for wanted in rounds:
        before = dict(changes.partitions)
        changed = {key: wanted.get(key) for key in [*before, *wanted] if before.get(key) != wanted.get(key)}
        expected, request = whole.build(wanted), changes.build_changed(changed)
        assert changes.partitions == wanted
        assert (expected is None) == (request is None)
        if expected is not None and request is not None:
            assert request.partitions == expected.partitions
            assert set(request.forgotten) == set(expected.forgotten)
            for session in (whole, changes):
                session.answered(request, ErrorCode.none, 77)
