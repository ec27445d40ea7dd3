"""The classic group protocol, request by request, on our broker and on Apache Kafka: each answer, and each refusal."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.support.group_requests import (
    HEARTBEAT,
    JOIN,
    LEAVE,
    SYNC,
    commit_fields,
    heartbeat_fields,
    join_fields,
    leave_fields,
    subscription,
    sync_fields,
)
from tests.support.processes import BrokerProcess
from tests.support.shared_producer import until
from tests.support.wire import Connection

NONE = ErrorCode.none
UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION = ErrorCode.unknown_member_id, ErrorCode.illegal_generation
INCONSISTENT, REBALANCE = ErrorCode.inconsistent_group_protocol, ErrorCode.rebalance_in_progress
FENCED, MEMBER_ID_REQUIRED = ErrorCode.fenced_instance_id, ErrorCode.member_id_required
LOADING = (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress)
EVERY_OPERATION = 0b1101_0100_1000


class Client:
    """One connection that speaks for one member."""

    def __init__(self, log: BrokerProcess, group: str, instance_id: str | None = None, **join: Any) -> None:
        self.connection = Connection(log.bootstrap_servers)
        self.group, self.instance_id, self.join_options = group, instance_id, join
        self.member_id, self.generation = "", -1

    def send_join(self, version: int = JOIN, **more: Any) -> None:
        options = {"member_id": self.member_id, "instance_id": self.instance_id} | self.join_options | more
        self.version = version
        self.connection.send("join_group", version, **join_fields(version, self.group, **options))

    def joined(self) -> Any:
        answer = self.connection.receive("join_group", self.version)
        if answer.error_code is NONE:
            self.generation = answer.generation_id
        if answer.error_code in (NONE, MEMBER_ID_REQUIRED):
            self.member_id = answer.member_id
        return answer

    def join(self, version: int = JOIN, **more: Any) -> Any:
        self.send_join(version, **more)
        return self.joined()

    def enter(self, version: int = JOIN) -> None:
        """Ask to join with an id of its own; the answer is not waited for."""
        if self.instance_id is None and not self.member_id and version >= 4:
            assert self.join(version).error_code is MEMBER_ID_REQUIRED
        self.send_join(version)

    def send_sync(self, assignments: dict[str, bytes] | None = None, version: int = SYNC, **more: Any) -> None:
        options = {"instance_id": self.instance_id} | more
        generation = options.pop("generation", self.generation)
        member_id = options.pop("member_id", self.member_id)
        fields = sync_fields(version, self.group, member_id, generation, assignments, **options)
        self.connection.send("sync_group", version, **fields)

    def synced(self, version: int = SYNC) -> Any:
        return self.connection.receive("sync_group", version)

    def sync(self, assignments: dict[str, bytes] | None = None, version: int = SYNC, **more: Any) -> Any:
        self.send_sync(assignments, version, **more)
        return self.synced(version)

    def heartbeat(self, **more: Any) -> ErrorCode:
        options = {"member_id": self.member_id, "generation": self.generation, "instance_id": self.instance_id} | more
        fields = heartbeat_fields(HEARTBEAT, self.group, **options)
        return self.ask("heartbeat", HEARTBEAT, **fields).error_code

    def commit(self, topic: str, version: int = 8, **more: Any) -> ErrorCode:
        options = {"member_id": self.member_id, "generation": self.generation, "instance_id": self.instance_id} | more
        answer = self.ask("offset_commit", version, **commit_fields(self.group, topic, {0: 1}, **options))
        return answer.topics[0].partitions[0].error_code

    def leave(self, *leaving: tuple[str, str | None], version: int = LEAVE) -> Any:
        named = leaving or ((self.member_id, None),)
        return self.ask("leave_group", version, **leave_fields(version, self.group, named))

    def describe(self, version: int = 5, operations: bool = False) -> Any:
        asked = {"include_authorized_operations": operations} if version >= 3 else {}
        (group,) = self.ask("describe_groups", version, groups=[self.group], **asked).groups
        return group

    def wait_for_members(self, count: int) -> None:
        """Requests of several connections arrive in any order."""
        while len(self.describe().members) != count:
            pass

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        return self.connection.ask(api, version, **fields)


NewClient = Callable[..., Client]


@pytest.fixture
def group(log: BrokerProcess) -> str:
    """A group of the test's own, whose coordinator is there."""
    name = f"group-{uuid.uuid4().hex[:8]}"
    connection = Connection(log.bootstrap_servers)
    until(lambda: connection.ask("find_coordinator", 3, key=name, key_type=0).error_code is NONE)
    until(lambda: connection.ask("delete_groups", 1, groups_names=[name]).results[0].error_code not in LOADING)
    connection.close()
    return name


@pytest.fixture
def new_client(log: BrokerProcess, group: str) -> Iterator[NewClient]:
    clients: list[Client] = []

    def make(instance_id: str | None = None, **join: Any) -> Client:
        clients.append(Client(log, group, instance_id, **join))
        return clients[-1]

    yield make
    for client in clients:
        client.connection.close()


def stable(*clients: Client) -> None:
    """Bring these, who are new, into one generation, in which each is assigned its place in the list."""
    clients[0].enter()
    assert clients[0].joined().error_code is NONE
    assert clients[0].sync({clients[0].member_id: b"0"}).assignment == b"0"
    for count in range(2, len(clients) + 1):
        clients[count - 1].enter()
        clients[0].wait_for_members(count)
        for client in clients[: count - 1]:
            client.send_join()
        settle(*clients[:count])


def settle(*clients: Client) -> None:
    """Everybody has asked to join: take the answers, and have the leader assign."""
    answers = [client.joined() for client in clients]
    assert {answer.error_code for answer in answers} == {NONE}, answers
    assignments = {client.member_id: str(place).encode() for place, client in enumerate(clients)}
    for client, answer in zip(clients, answers, strict=True):
        client.send_sync(assignments if answer.leader == client.member_id else None)
    for place, client in enumerate(clients):
        answer = client.synced()
        assert (answer.error_code, answer.assignment) == (NONE, str(place).encode())


# --------------------------------------------------------------------------------------------------- joining


def test_member_without_an_id_is_given_one_and_has_to_come_back_with_it(new_client):
    """KIP-394: MEMBER_ID_REQUIRED, and the id is kept for the session timeout."""
    client = new_client()
    answer = client.join()
    assert (answer.error_code, answer.generation_id, answer.members) == (MEMBER_ID_REQUIRED, -1, ())
    assert answer.member_id.startswith(client.connection.client_id + "-")
    assert len(answer.member_id) == len(client.connection.client_id) + 37
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
    while one.heartbeat() is NONE:
        pass
    assert one.heartbeat() is REBALANCE
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
    while one.heartbeat() is NONE:
        pass
    one.send_join()
    settle(one, two)
    assert one.generation == 3


def test_leader_that_joins_again_makes_a_rebalance_in_any_case(new_client):
    """It may know of a change that no subscription shows: that a topic has more partitions, say."""
    one, two = new_client(), new_client()
    stable(one, two)
    one.send_join()
    while two.heartbeat() is NONE:
        pass
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
    while leader.heartbeat() is NONE:
        pass
    leader.send_join()
    settle(leader, new)
    assert leader.generation == 3


def test_static_member_that_comes_back_while_it_is_waited_for_fences_the_one_that_waits(new_client):
    leader, old, new = new_client(), new_client("i-1"), new_client("i-1")
    stable(leader)
    old.enter()
    while leader.heartbeat() is NONE:
        pass
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


def test_member_that_falls_silent_is_taken_out_when_its_session_ends(new_client):
    """A connection that closes says nothing: the session timeout does."""
    one, two = new_client(), new_client(session_ms=6000)
    stable(one, two)
    two.connection.close()
    while (error := one.heartbeat()) is NONE:
        pass
    assert error is REBALANCE
    one.send_join()
    settle(one)
    assert (one.generation, len(one.describe().members)) == (3, 1)


# --------------------------------------------------------------------------------------------------- offsets


@pytest.fixture
def topic(new_topic) -> str:
    return new_topic()


MEMBER_FACTS = [
    ({}, NONE),
    ({"generation": 0}, ILLEGAL_GENERATION),
    ({"generation": 2}, ILLEGAL_GENERATION),
    ({"generation": -1}, ILLEGAL_GENERATION),
    ({"member_id": "nobody"}, UNKNOWN_MEMBER_ID),
    ({"member_id": "nobody", "generation": -1}, UNKNOWN_MEMBER_ID),
    ({"member_id": "", "generation": 1}, UNKNOWN_MEMBER_ID),
    ({"instance_id": "nobody"}, UNKNOWN_MEMBER_ID),
]


@pytest.mark.parametrize(
    ("facts", "expected"), [*MEMBER_FACTS, ({"member_id": "", "generation": -1}, UNKNOWN_MEMBER_ID)], ids=str
)
def test_commit_for_a_group_with_members_is_theirs(new_client, topic, facts, expected):
    client = new_client()
    stable(client)
    assert client.commit(topic, **facts) is expected


@pytest.mark.parametrize(("facts", "expected"), [*MEMBER_FACTS, ({"member_id": "", "generation": -1}, NONE)], ids=str)
def test_commit_in_a_transaction_is_fenced_by_whom_it_names(new_client, topic, unique, facts, expected):
    """KIP-447: the member and its generation are checked if they are given; older producers do not say who they are."""
    client = new_client()
    stable(client)
    assert transactional_commit(client, topic, unique, **facts) is expected


def transactional_commit(client: Client, topic: str, unique: str, **facts: Any) -> ErrorCode:
    transactional_id = f"tx-{unique}"
    until(lambda: client.ask("find_coordinator", 3, key=transactional_id, key_type=1).error_code is NONE)
    options = {
        "member_id": client.member_id,
        "generation": client.generation,
        "instance_id": client.instance_id,
    } | facts
    fields = commit_fields(client.group, topic, {0: 1}, **options)
    fields["generation_id"] = fields.pop("generation_id_or_member_epoch")
    minute = join_fields(JOIN, client.group)["rebalance_timeout"]
    asked = {"transactional_id": transactional_id, "transaction_timeout": minute}
    until(lambda: client.ask("init_producer_id", 4, **asked).error_code not in LOADING)
    producer = client.ask("init_producer_id", 4, **asked)
    assert producer.error_code is NONE
    who = {
        "transactional_id": transactional_id,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
    }
    while (added := client.ask("add_offsets_to_txn", 3, **who, group_id=client.group).error_code) is not NONE:
        assert added is ErrorCode.concurrent_transactions
    answer = client.ask("txn_offset_commit", 4, **who, **fields)
    client.ask("end_txn", 4, **who, committed=False)
    return answer.topics[0].partitions[0].error_code


def test_commit_while_the_group_rebalances(new_client, topic, unique):
    """Those who have yet to join again may still commit; while the leader assigns nobody may, but in a transaction."""
    one, two = new_client(), new_client()
    stable(one)
    two.enter()
    while one.heartbeat() is NONE:
        pass
    assert one.commit(topic) is NONE
    assert one.commit(topic, member_id=two.member_id) is NONE, (
        "it is in already, and names the generation that still counts"
    )
    one.send_join()
    one.joined()
    two.joined()
    assert one.commit(topic) is two.commit(topic) is REBALANCE
    assert one.commit(topic, generation=1) is ILLEGAL_GENERATION
    assert transactional_commit(one, topic, unique) is NONE


def test_static_member_that_was_replaced_cannot_commit(new_client, topic, unique):
    old, new = new_client("i-1"), new_client("i-1")
    stable(old)
    assert new.join().error_code is NONE
    assert old.commit(topic) is FENCED
    assert transactional_commit(old, topic, unique) is FENCED
    assert new.commit(topic) is NONE


@pytest.mark.parametrize(("version", "expected"), [(8, ILLEGAL_GENERATION), (9, ErrorCode.group_id_not_found)])
def test_commit_of_a_generation_for_a_group_that_is_not_there(new_client, topic, version, expected):
    assert new_client().commit(topic, version, member_id="m", generation=1) is expected


def test_commit_without_a_generation_makes_a_group_that_anybody_may_join(new_client, topic):
    client = new_client()
    assert client.commit(topic) is NONE
    assert client.commit(topic, member_id="m", generation=1) is UNKNOWN_MEMBER_ID
    assert client.describe().group_state == "Empty"
    stable(client)
    assert client.commit(topic) is NONE


# --------------------------------------------------------------------------------------------------- administration


def offset_delete(client: Client, *partitions: tuple[str, int]) -> Any:
    topics = [
        {"name": name, "partitions": [{"partition_index": index} for _, index in found]}
        for name, found in itertools.groupby(partitions, key=lambda one: one[0])
    ]
    return client.ask("offset_delete", 0, group_id=client.group, topics=topics)


def test_group_with_members_is_not_deleted(new_client):
    client = new_client()
    stable(client)
    (result,) = client.ask("delete_groups", 2, groups_names=[client.group]).results
    assert result.error_code is ErrorCode.non_empty_group
    client.leave()
    (result,) = client.ask("delete_groups", 2, groups_names=[client.group, client.group]).results
    assert result.error_code is NONE
    (result,) = client.ask("delete_groups", 1, groups_names=[client.group]).results
    assert result.error_code is ErrorCode.group_id_not_found
    assert client.describe().group_state == "Dead"


def test_offsets_of_topics_that_are_subscribed_to_are_not_deleted(new_client, new_topic):
    """KIP-496: GROUP_SUBSCRIBED_TO_TOPIC."""
    subscribed, other = new_topic(partitions=2), new_topic()
    client = new_client(protocols={"range": subscription(subscribed)})
    client.commit(subscribed)
    client.commit(other)
    stable(client)
    answer = offset_delete(client, (other, 0), (subscribed, 0), (subscribed, 1), ("nowhere", 0))
    assert answer.error_code is NONE
    found = {
        (topic.name, partition.partition_index): partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
    }
    assert found == {
        (other, 0): NONE,
        (subscribed, 0): ErrorCode.group_subscribed_to_topic,
        (subscribed, 1): ErrorCode.group_subscribed_to_topic,
        ("nowhere", 0): ErrorCode.unknown_topic_or_partition,
    }
    fetched = client.ask("offset_fetch", 7, group_id=client.group, topics=None, require_stable=False)
    assert [topic.name for topic in fetched.topics] == [subscribed]
    client.leave()
    assert offset_delete(client, (subscribed, 0)).topics[0].partitions[0].error_code is NONE


def test_offsets_of_a_group_that_says_nothing_of_topics_are_not_deleted_while_it_has_members(new_client, topic):
    client = new_client(protocol_type="connect")
    client.commit(topic)
    stable_type = {"protocol_type": "connect"}
    client.enter()
    client.joined()
    client.sync({}, **stable_type)
    answer = offset_delete(client, (topic, 0))
    assert (answer.error_code, answer.topics) == (ErrorCode.non_empty_group, ())


def test_offsets_of_no_group_are_not_deleted(new_client, topic):
    client = new_client()
    assert offset_delete(client, (topic, 0)).error_code is ErrorCode.group_id_not_found
    client.group = ""
    assert offset_delete(client, (topic, 0)).error_code is ErrorCode.invalid_group_id


def test_group_that_is_not_there_is_described_as_dead(new_client):
    """KIP-1043: v6 says that it was not found."""
    client = new_client()
    found = client.describe(5, operations=True)
    assert (found.error_code, found.group_state, found.protocol_type) == (NONE, "Dead", "")
    assert found.authorized_operations == EVERY_OPERATION
    found = client.describe(6, operations=True)
    assert (found.error_code, found.group_state) == (ErrorCode.group_id_not_found, "Dead")
    assert found.error_message == f"Group {client.group} not found."
    assert found.authorized_operations == -(2**31)


def test_groups_are_listed_by_state_and_type(new_client, topic):
    members, simple = new_client(), new_client()
    simple.group += "-simple"
    stable(members)
    simple.commit(topic)

    def listed(version: int, **filters: list[str]) -> dict[str, Any]:
        answer = members.ask("list_groups", version, **filters)
        assert answer.error_code is NONE
        return {one.group_id: one for one in answer.groups if one.group_id.startswith(members.group)}

    everything = listed(5, states_filter=[], types_filter=[])
    assert {name: (one.protocol_type, one.group_state, one.group_type.lower()) for name, one in everything.items()} == {
        members.group: ("consumer", "Stable", "classic"),
        simple.group: ("", "Empty", "classic"),
    }
    assert set(listed(0)) == {members.group, simple.group}
    assert set(listed(4, states_filter=["sTABLE"])) == {members.group}
    assert set(listed(4, states_filter=["Empty", "Dead"])) == {simple.group}
    assert set(listed(5, states_filter=[], types_filter=["CLASSIC"])) == {members.group, simple.group}
    assert listed(5, states_filter=[], types_filter=["consumer"]) == {}
    assert listed(5, states_filter=["nonsense"], types_filter=[]) == {}
