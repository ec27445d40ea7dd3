"""The assignors of the coordinator (KIP-848): who gets what, and that nobody loses what it might have kept."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from oncelog.groups.consumer.assignment import Assignment
from oncelog.groups.consumer.assignors import Candidate, assign_range, assign_uniform

IDS = [UUID(int=number) for number in range(4)]
T, U = IDS[:2]
SIZES = st.fixed_dictionaries({topic_id: st.integers(0, 9) for topic_id in IDS})
TOPICS = st.frozensets(st.sampled_from(IDS))


def candidates(*topics: frozenset[UUID], had: dict[str, Assignment] | None = None) -> list[Candidate]:
    return [
        Candidate(f"m{number}", None, wanted, (had or {}).get(f"m{number}", frozenset()))
        for number, wanted in enumerate(topics)
    ]


def everything(members: Sequence[Candidate], sizes: dict[UUID, int]) -> set[tuple[UUID, int]]:
    wanted = frozenset[UUID]().union(*(member.topics for member in members))
    return {(topic_id, index) for topic_id in wanted for index in range(sizes[topic_id])}


@given(st.lists(TOPICS, min_size=1, max_size=6), SIZES, st.sampled_from((assign_range, assign_uniform)))
def test_each_partition_is_of_one_member_that_is_subscribed(topics, sizes, assign) -> None:
    members = candidates(*topics)
    assigned = assign(members, sizes)
    given_out = [partition for owned in assigned.values() for partition in owned]
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == everything(members, sizes)
    assert all(partition[0] in member.topics for member in members for partition in assigned[member.member_id])


@given(st.integers(1, 9), SIZES)
def test_uniform_gives_members_of_the_same_topics_equally_many(count, sizes) -> None:
    assigned = assign_uniform(candidates(*[frozenset(IDS)] * count), sizes)
    counts = [len(owned) for owned in assigned.values()]
    assert max(counts) - min(counts) <= 1


@given(st.lists(TOPICS.filter(bool), min_size=1, max_size=6), SIZES)
def test_uniform_leaves_no_move_that_would_make_two_members_more_equal(topics, sizes) -> None:
    members = candidates(*topics)
    assigned = assign_uniform(members, sizes)
    for giver in members:
        for taker in members:
            shared = [partition for partition in assigned[giver.member_id] if partition[0] in taker.topics]
            if shared:
                assert len(assigned[giver.member_id]) - len(assigned[taker.member_id]) <= 1


@given(st.integers(2, 8), SIZES)
def test_uniform_moves_no_more_than_it_has_to(count, sizes) -> None:
    """KIP-848: "sticky": when one member goes, the others keep what they have; when one comes, it gets no more than its share."""
    topics = [frozenset(IDS)] * count
    before = assign_uniform(candidates(*topics), sizes)
    without_last = {member_id: owned for member_id, owned in before.items() if member_id != f"m{count - 1}"}
    fewer = assign_uniform(candidates(*topics[:-1], had=without_last), sizes)
    assert all(fewer[member_id] >= owned for member_id, owned in without_last.items())
    more = assign_uniform(candidates(*topics, frozenset(IDS), had=before), sizes)
    moved = sum(len(owned - more[member_id]) for member_id, owned in before.items())
    assert moved == len(more[f"m{count}"])
    assert assign_uniform(candidates(*topics, had=before), sizes) == before


def test_uniform_forgets_what_is_not_there_any_more() -> None:
    had = {"m0": frozenset({(T, 0), (T, 5), (U, 0)})}
    assert assign_uniform(candidates(frozenset({T}), had=had), {T: 2}) == {"m0": {(T, 0), (T, 1)}}


def test_range_gives_neighbours_and_the_same_ones_of_topics_of_one_size() -> None:
    """KIP-848: "range" co-partitions: a member has the same partitions of each topic."""
    assigned = assign_range(candidates(*[frozenset({T, U})] * 3), {T: 7, U: 7})
    assert assigned["m0"] == {(topic_id, index) for topic_id in (T, U) for index in (0, 1, 2)}
    assert assigned["m1"] == {(topic_id, index) for topic_id in (T, U) for index in (3, 4)}
    assert assigned["m2"] == {(topic_id, index) for topic_id in (T, U) for index in (5, 6)}


def test_range_puts_static_members_first_in_the_order_of_their_instances() -> None:
    """Their ids change with every start; what they get is not to."""
    members = [
        Candidate("a", None, frozenset({T}), frozenset()),
        Candidate("c", "one", frozenset({T}), frozenset()),
        Candidate("b", "two", frozenset({T}), frozenset()),
    ]
    assigned = assign_range(members, {T: 3})
    assert (assigned["c"], assigned["b"], assigned["a"]) == ({(T, 0)}, {(T, 1)}, {(T, 2)})


def test_a_thousand_topics_are_assigned_to_a_hundred_members() -> None:
    ids = [UUID(int=number) for number in range(1000)]
    assigned = assign_uniform(candidates(*[frozenset(ids)] * 100), dict.fromkeys(ids, 10))
    assert {len(owned) for owned in assigned.values()} == {100}
