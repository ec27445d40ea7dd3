"""Assignments by themselves: complete, balanced, and for the cooperative one as few moves as that takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.groups.assignors import (
    ASSIGNORS,
    MemberSubscription,
    assign_cooperatively,
    assign_ranges,
    assign_round_robin,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from oncelog.client.values import TopicPartition
from oncelog.wire import WireError

names = st.text(min_size=1, max_size=5)
partitions = st.frozensets(st.builds(TopicPartition, names, st.integers(0, 100)))


@given(topics=st.frozensets(names), owned=partitions, generation=st.integers(-1, 2**31 - 1))
def test_subscription_is_read_as_it_was_written(topics, owned, generation):
    subscription = MemberSubscription(topics, owned, generation, "instance")
    assert decode_subscription(encode_subscription(subscription), "instance") == subscription


@given(partitions)
def test_assignment_is_read_as_it_was_written(assigned):
    assert decode_assignment(encode_assignment(assigned)) == assigned


def test_subscription_has_the_layout_of_version_3():
    """int16 version, topics, user data, owned partitions (v1), generation id (v2), rack id (v3)."""
    subscription = MemberSubscription(frozenset("t"), frozenset({TopicPartition("t", 2)}), 7)
    topics, owned = "00000001" + "000174", "00000001" + "000174" + "00000001" + "00000002"
    assert encode_subscription(subscription).hex() == "0003" + topics + "ffffffff" + owned + "00000007" + "ffff"


def test_versions_of_others_are_read_as_far_as_they_are_known():
    oldest = bytes.fromhex("0000" + "00000001" + "000174" + "ffffffff")
    assert decode_subscription(oldest, None) == MemberSubscription(frozenset("t"))
    newer = b"\x00\x09" + encode_subscription(MemberSubscription(frozenset("t")))[2:] + b"more"
    assert decode_subscription(newer, None) == MemberSubscription(frozenset("t"))


def test_no_bytes_are_no_partitions_and_others_are_refused():
    assert decode_assignment(b"") == frozenset()
    for broken in (b"\x00", b"\x00\x01\x00\x00\x00\x09", b"\xff\xff\x00"):
        with pytest.raises(WireError):
            decode_assignment(broken)
        with pytest.raises(WireError):
            decode_subscription(broken, None)


TOPICS = ("a", "b", "c")


def member(topics="abc", owned=(), generation=-1, instance=None):
    return MemberSubscription(frozenset(topics), frozenset(owned), generation, instance)


def tps(topic, *numbers):
    return frozenset(TopicPartition(topic, number) for number in numbers)


counts_of_topics = st.fixed_dictionaries({topic: st.integers(0, 9) for topic in TOPICS})
equal_members = st.integers(1, 6).map(lambda count: {f"m{number}": member() for number in range(count)})
mixed_members = st.lists(st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1, max_size=6).map(
    lambda several: {f"m{number}": member(topics) for number, topics in enumerate(several)}
)


def after(members, assignment, generation):
    return {name: member(subscription.topics, assignment[name], generation) for name, subscription in members.items()}


def settle(members, counts):
    """Rebalance as cooperative members do: until nobody has to give anything up."""
    rounds = 0
    while True:
        rounds += 1
        assert rounds <= 3, "it does not come to an end"
        assignment = assign_cooperatively(members, counts)
        is_over = all(subscription.owned <= assignment[name] for name, subscription in members.items())
        members = after(members, assignment, rounds + 10)
        if is_over:
            return assignment


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(members=mixed_members, counts=counts_of_topics)
def test_every_partition_goes_to_one_of_its_subscribers(name, members, counts):
    assignment = ASSIGNORS[name](members, counts)
    given_out = [item for partitions in assignment.values() for item in partitions]
    wanted = {topic for subscription in members.values() for topic in subscription.topics}
    assert sorted(given_out) == [TopicPartition(topic, n) for topic in sorted(wanted) for n in range(counts[topic])]
    assert all(item.topic in members[name].topics for name, partitions in assignment.items() for item in partitions)


@given(members=equal_members, counts=counts_of_topics)
def test_members_that_want_the_same_get_as_much_as_each_other(members, counts):
    for assign in (assign_round_robin, assign_cooperatively):
        loads = [len(partitions) for partitions in assign(members, counts).values()]
        assert max(loads) - min(loads) <= 1


@given(members=mixed_members, counts=counts_of_topics)
def test_nothing_moves_when_nothing_has_changed(members, counts):
    first = assign_cooperatively(members, counts)
    assert assign_cooperatively(after(members, first, 1), counts) == first


@given(members=equal_members, counts=counts_of_topics)
def test_newcomer_gets_its_share_and_nothing_else_moves(members, counts):
    before = assign_cooperatively(members, counts)
    joined = {**after(members, before, 1), "new": member()}
    settled = settle(joined, counts)
    loads = [len(partitions) for partitions in settled.values()]
    assert max(loads) - min(loads) <= 1
    assert all(settled[name] <= before[name] for name in members)


@given(members=mixed_members, counts=counts_of_topics, left=st.integers(0, 5), changed=counts_of_topics)
def test_what_moves_is_given_up_before_it_is_given_away(members, counts, left, changed):
    """KIP-429: a partition that is to be revoked is not assigned to its new owner before the next rebalance."""
    held = after(members, assign_cooperatively(members, counts), 1)
    if len(held) > 1:
        held.pop(sorted(held)[left % len(held)])
    assignment = assign_cooperatively(held, changed)
    for name, partitions in assignment.items():
        for other, subscription in held.items():
            assert other == name or not partitions & subscription.owned
    settle(held, changed)


def test_ranges_are_consecutive_and_the_first_members_get_one_more():
    members = {"m2": member("ab"), "m1": member("ab"), "m0": member("b")}
    assert assign_ranges(members, {"a": 3, "b": 3, "c": 5}) == {
        "m0": tps("b", 0),
        "m1": tps("a", 0, 1) | tps("b", 1),
        "m2": tps("a", 2) | tps("b", 2),
    }


def test_round_robin_deals_in_turn_and_passes_over_who_does_not_subscribe():
    members = {"m0": member("a"), "m1": member("ab")}
    assert assign_round_robin(members, {"a": 3, "b": 2}) == {"m0": tps("a", 0, 2), "m1": tps("a", 1) | tps("b", 0, 1)}


def test_static_members_keep_their_place_whatever_their_member_id_is():
    """KIP-345: assignors order members by their instance id, which lasts over restarts."""
    first = {"z": member("a", instance="one"), "y": member("a", instance="two"), "b": member("a")}
    again = {"b": first["b"], "a": first["y"], "x": first["z"]}
    for assign in (assign_ranges, assign_round_robin):
        before, now = assign(first, {"a": 3}), assign(again, {"a": 3})
        assert (now["x"], now["a"], now["b"]) == (before["z"], before["y"], before["b"])


def test_claim_of_an_older_generation_does_not_count():
    members = {"old": member("a", tps("a", 0, 1), 3), "new": member("a", tps("a", 0, 1), 4)}
    assert assign_cooperatively(members, {"a": 2})["new"] > frozenset()
    assert assign_cooperatively(members, {"a": 2})["old"] == frozenset()


def test_partition_that_two_claim_in_one_generation_is_nobodys():
    members = {"m0": member("a", tps("a", 0), 4), "m1": member("a", tps("a", 0, 1), 4)}
    assert assign_cooperatively(members, {"a": 2}) == {"m0": tps("a", 0), "m1": tps("a", 1)}


def test_many_partitions_take_no_time_to_speak_of():
    counts = {f"topic-{number}": 20 for number in range(250)}
    members = {f"m{number:02}": member(counts) for number in range(20)}
    held = after(members, assign_cooperatively(members, counts), 1)
    settled = settle({**held, "new": member(counts)}, counts)
    assert len(settled["new"]) in (5000 // 21, 5000 // 21 + 1)
