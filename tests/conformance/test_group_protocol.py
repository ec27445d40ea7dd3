"""The classic group protocol, request by request, on our broker and on Apache Kafka: each answer, and each refusal."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from harness.conformance.group_client import settle, stable
from harness.group_requests import subscription
from harness.waiting import until

NONE = ErrorCode.none
UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION = ErrorCode.unknown_member_id, ErrorCode.illegal_generation
INCONSISTENT, REBALANCE = ErrorCode.inconsistent_group_protocol, ErrorCode.rebalance_in_progress
FENCED, MEMBER_ID_REQUIRED = ErrorCode.fenced_instance_id, ErrorCode.member_id_required


# --------------------------------------------------------------------------------------------------- joining


def test_member_without_an_id_is_given_one_and_has_to_come_back_with_it(new_client):
    """KIP-394: MEMBER_ID_REQUIRED, and the id is kept for the session timeout."""
    client = new_client()
    answer = client.join()
    assert (answer.error_code, answer.generation_id, answer.members) == (MEMBER_ID_REQUIRED, -1, ())
    assert answer.member_id.startswith(client.connection.client_id + "-")
    assert len(answer.member_id) == len(client.connection.client_id) + 37
    # Kafka answers before the record of the new group is committed, and describes what is committed.
    until(lambda: client.describe().group_state != "Dead")
    described = client.describe()
    assert (described.group_state, described.protocol_type, described.members) == ("Empty", "", ())
    answer = client.join()
    assert (answer.error_code, answer.generation_id, answer.protocol_type, answer.protocol_name) == (
        NONE,
        1,
        "consumer",
        "range",
    )
    assert answer.leader == answer.member_id == client.member_id
    assert not answer.skip_assignment
    (member,) = answer.members
    assert (member.member_id, member.group_instance_id, member.metadata) == (client.member_id, None, subscription("t"))


@pytest.mark.parametrize("version", range(10))
def test_every_version_joins_syncs_and_leaves(new_client, version):
    client = new_client()
    client.enter(version)
    answer = client.joined()
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (NONE, 1, "range")
    assert [member.member_id for member in answer.members] == [client.member_id]
    synced = client.sync({client.member_id: b"all"}, version=min(version, 5))
    assert (synced.error_code, synced.assignment) == (NONE, b"all")
    described = client.describe(min(version, 6))
    (member,) = described.members
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert (member.member_id, member.client_id, member.client_host) == (
        client.member_id,
        client.connection.client_id,
        "/127.0.0.1",
    )
    assert (member.member_metadata, member.member_assignment) == (subscription("t"), b"all")
    answer = client.leave((client.member_id, None), version=min(version, 5))
    assert answer.error_code is NONE
    if version >= 3:
        assert [member.error_code for member in answer.members] == [NONE]
    described = client.describe()
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Empty", "consumer", "")


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        ({"session_ms": 5999}, ErrorCode.invalid_session_timeout),
        ({"session_ms": 1_800_001}, ErrorCode.invalid_session_timeout),
        ({"member_id": "nobody"}, UNKNOWN_MEMBER_ID),
        ({"protocols": {}}, INCONSISTENT),
        ({"protocol_type": ""}, INCONSISTENT),
    ],
    ids=str,
)
def test_join_that_cannot_be_is_refused(new_client, refused, expected):
    answer = new_client().join(**refused)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (expected, -1, None)
    assert answer.member_id == refused.get("member_id", "")


def test_group_without_a_name_is_refused(log, new_client):
    client = new_client()
    client.group = ""
    assert client.join().error_code is ErrorCode.invalid_group_id
    assert client.sync(generation=1).error_code is ErrorCode.invalid_group_id
    assert client.heartbeat() is ErrorCode.invalid_group_id
    assert client.leave(("somebody", None)).error_code is ErrorCode.invalid_group_id


@pytest.mark.parametrize(
    "other", [{"protocol_type": "connect"}, {"protocols": {"roundrobin": b""}}, {"protocols": {}}], ids=str
)
def test_member_that_does_not_fit_to_the_others_is_refused(new_client, other):
    stable(new_client())
    assert new_client(**other).join().error_code is INCONSISTENT


def test_every_member_votes_for_a_protocol_that_all_can_do(new_client):
    one, two, three = (
        new_client(protocols=dict.fromkeys(names, subscription("t")))
        for names in (["a", "b", "c"], ["b", "c"], ["c", "b"])
    )
    one.enter()
    assert one.joined().protocol_name == "a"
    two.enter()
    three.enter()
    one.wait_for_members(3)
    one.send_join()
    assert {client.joined().protocol_name for client in (one, two, three)} == {"b"}


# --------------------------------------------------------------------------------------------------- joining again


def test_newcomer_has_everybody_join_again(new_client):
    one, two = new_client(), new_client()
    stable(one)
    two.enter()
    one.wait_for_rebalance()
    assert one.describe().group_state == "PreparingRebalance"
    assert one.sync().error_code is REBALANCE
    one.send_join()
    settle(one, two)
    assert (one.generation, two.generation) == (2, 2)
    assert (one.heartbeat(), two.heartbeat()) == (NONE, NONE)


def test_only_the_leader_is_told_who_is_there(new_client):
    one, two = new_client(), new_client()
    stable(one)
    two.enter()
    one.wait_for_members(2)
    one.send_join()
    leader, follower = one.joined(), two.joined()
    assert leader.leader == follower.leader == one.member_id
    assert {member.member_id for member in leader.members} == {one.member_id, two.member_id}
    assert follower.members == ()


def test_follower_that_says_the_same_again_is_answered_at_once(new_client):
    """It may have missed the answer: a rebalance would change nothing."""
    one, two = new_client(), new_client()
    stable(one, two)
    answer = two.join()
    assert (answer.error_code, answer.generation_id, answer.leader) == (NONE, 2, one.member_id)
    assert one.heartbeat() is NONE


def test_follower_that_says_something_new_makes_a_rebalance(new_client):
    one, two = new_client(), new_client()
    stable(one, two)
    two.send_join(protocols={"range": subscription("u")})
    one.wait_for_rebalance()
    one.send_join()
    settle(one, two)
    assert one.generation == 3


def test_leader_that_joins_again_makes_a_rebalance_in_any_case(new_client):
    """It may know of a change that no subscription shows: that a topic has more partitions, say."""
    one, two = new_client(), new_client()
    stable(one, two)
    one.send_join()
    two.wait_for_rebalance()
    two.send_join()
    settle(one, two)
    assert one.generation == 3


def test_follower_waits_for_the_leader_to_assign_and_is_told_when_there_is_another_rebalance(new_client):
    one, two, three = new_client(), new_client(), new_client()
    stable(one)
    two.enter()
    one.wait_for_members(2)
    one.send_join()
    for client in (one, two):
        client.joined()
    assert one.describe().group_state == "CompletingRebalance"
    assert (one.heartbeat(), two.heartbeat()) == (NONE, NONE)
    assert two.join().generation_id == 2, "the same once more is answered from the generation there is"
    two.send_sync()
    three.enter()
    assert two.synced().error_code is REBALANCE
    for client in (one, two):
        client.send_join()
    settle(one, two, three)


def test_member_that_the_leader_forgets_is_assigned_nothing(new_client):
    one, two = new_client(), new_client()
    stable(one)
    two.enter()
    one.wait_for_members(2)
    one.send_join()
    for client in (one, two):
        client.joined()
    assert one.sync({one.member_id: b"all", "a stranger": b"x"}).assignment == b"all"
    synced = two.sync()
    assert (synced.error_code, synced.assignment) == (NONE, b"")
    assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"generation": 0}, ILLEGAL_GENERATION),
        ({"generation": 3}, ILLEGAL_GENERATION),
        ({"member_id": "nobody"}, UNKNOWN_MEMBER_ID),
        ({"instance_id": "nobody"}, UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, INCONSISTENT),
        ({"protocol": "roundrobin"}, INCONSISTENT),
        ({"protocol": None}, INCONSISTENT),
        ({"protocol_type": None}, INCONSISTENT),
    ],
    ids=str,
)
def test_sync_that_does_not_belong_to_the_generation_is_refused(new_client, wrong, expected):
    client = new_client()
    stable(client)
    answer = client.sync(**wrong)
    assert (answer.error_code, answer.assignment, answer.protocol_name) == (expected, b"", None)
    if "protocol" not in next(iter(wrong)):
        assert client.heartbeat(**wrong) is expected
    assert client.sync().assignment == b"0"


def test_group_that_is_not_there_knows_nobody(new_client):
    client = new_client()
    assert client.sync(member_id="m", generation=1).error_code is UNKNOWN_MEMBER_ID
    assert client.heartbeat(member_id="m", generation=1) is UNKNOWN_MEMBER_ID
    answer = client.leave(("m", None), ("", "i"))
    assert (answer.error_code, [member.error_code for member in answer.members]) == (NONE, [UNKNOWN_MEMBER_ID] * 2)
    assert client.leave(("m", None), version=2).error_code is UNKNOWN_MEMBER_ID


# --------------------------------------------------------------------------------------------------- static members


def test_static_member_that_comes_back_takes_its_place_without_a_rebalance(new_client):
    """KIP-345: a member with a known instance id and no member id replaces the one before; that one is fenced."""
    leader, old, new = new_client(), new_client("i-1"), new_client("i-1")
    stable(leader, old)
    answer = new.join()
    assert (answer.error_code, answer.generation_id, answer.leader) == (NONE, 2, leader.member_id)
    assert answer.member_id.startswith("i-1-")
    assert answer.member_id != old.member_id
    assert (answer.members, answer.skip_assignment) == ((), False)
    assert new.sync().assignment == b"1"
    assert leader.heartbeat() is new.heartbeat() is NONE
    assert old.heartbeat() is FENCED
    assert old.sync().error_code is FENCED
    assert old.join().error_code is FENCED
    described = leader.describe()
    assert {member.group_instance_id: member.member_id for member in described.members} == {
        None: leader.member_id,
        "i-1": new.member_id,
    }


@pytest.mark.parametrize("version", [8, 9])
def test_static_leader_that_comes_back_need_not_assign(new_client, version):
    """KIP-814: v9 tells the leader to skip the assignment; before, it is told of the leader it was, so as not to assign."""
    old, follower, new = new_client("i-1"), new_client(), new_client("i-1")
    stable(old, follower)
    answer = new.join(version)
    assert (answer.error_code, answer.generation_id) == (NONE, 2)
    if version >= 9:
        assert (answer.leader, answer.skip_assignment) == (new.member_id, True)
        assert {member.member_id for member in answer.members} == {new.member_id, follower.member_id}
    else:
        assert (answer.leader, answer.members) == (old.member_id, ())
    assert new.sync().assignment == b"0"
    assert follower.heartbeat() is NONE


def test_static_member_that_comes_back_while_the_leader_assigns_makes_a_rebalance(new_client):
    """The leader assigns to an id that is no more."""
    leader, old, new = new_client(), new_client("i-1"), new_client("i-1")
    stable(leader)
    old.enter()
    leader.wait_for_members(2)
    leader.send_join()
    for client in (leader, old):
        client.joined()
    old.send_sync()
    new.send_join()
    assert old.synced().error_code is FENCED
    leader.wait_for_rebalance()
    leader.send_join()
    settle(leader, new)
    assert leader.generation == 3


def test_static_member_that_comes_back_while_it_is_waited_for_fences_the_one_that_waits(new_client):
    leader, old, new = new_client(), new_client("i-1"), new_client("i-1")
    stable(leader)
    old.enter()
    leader.wait_for_rebalance()
    new.send_join()
    assert old.joined().error_code is FENCED
    leader.send_join()
    settle(leader, new)


def test_static_member_that_rejoins_with_another_subscription_but_the_same_protocol_is_let_in_quietly(new_client):
    leader, old, new = new_client(), new_client("i-1"), new_client("i-1")
    stable(leader, old)
    assert new.join(protocols={"range": subscription("u")}).error_code is NONE
    assert leader.heartbeat() is NONE
    (metadata,) = (member.member_metadata for member in leader.describe().members if member.group_instance_id)
    assert metadata == subscription("u")


# --------------------------------------------------------------------------------------------------- leaving


def test_members_leave_together_each_with_an_answer_of_its_own(new_client):
    """KIP-345: by member id, by instance id alone (for an administrator), or by both."""
    one, two, three = new_client(), new_client("i-2"), new_client("i-3")
    stable(one, two, three)
    pending = new_client()
    assert pending.join().error_code is MEMBER_ID_REQUIRED
    answer = one.leave(
        ("", "i-2"),
        ("", "i-2"),
        ("", None),
        ("nobody", None),
        ("nobody", "i-3"),
        (three.member_id, "i-4"),
        (three.member_id, "i-3"),
        (pending.member_id, None),
    )
    assert answer.error_code is NONE
    assert [(member.member_id, member.group_instance_id, member.error_code) for member in answer.members] == [
        ("", "i-2", NONE),
        ("", "i-2", UNKNOWN_MEMBER_ID),
        ("", None, UNKNOWN_MEMBER_ID),
        ("nobody", None, UNKNOWN_MEMBER_ID),
        ("nobody", "i-3", FENCED),
        (three.member_id, "i-4", UNKNOWN_MEMBER_ID),
        (three.member_id, "i-3", NONE),
        (pending.member_id, None, NONE),
    ]
    assert pending.join().error_code is UNKNOWN_MEMBER_ID
    assert one.heartbeat() is REBALANCE
    one.send_join()
    settle(one)


def test_leader_that_leaves_is_followed_by_another(new_client):
    one, two = new_client(), new_client()
    stable(one, two)
    assert one.leave().error_code is NONE
    assert two.heartbeat() is REBALANCE
    answer = two.join()
    assert (answer.error_code, answer.generation_id, answer.leader) == (NONE, 3, two.member_id)


def test_last_member_leaves_an_empty_group_with_a_generation_of_its_own(new_client):
    client = new_client()
    stable(client)
    client.leave()
    assert client.heartbeat() is UNKNOWN_MEMBER_ID
    assert client.sync().error_code is UNKNOWN_MEMBER_ID
    assert client.join().error_code is UNKNOWN_MEMBER_ID
    client.member_id = ""
    client.enter()
    assert client.joined().generation_id == 3, "one more for the group that was empty"


@pytest.mark.drawn(6)
def test_member_that_falls_silent_is_taken_out_when_its_session_ends(new_client):
    """A connection that closes says nothing: the session timeout does."""
    one, two = new_client(), new_client(session_ms=6000)
    stable(one, two)
    two.connection.close()
    one.wait_for_rebalance()
    one.send_join()
    settle(one)
    assert (one.generation, len(one.describe().members)) == (3, 1)
