"""Groups in a whole broker: requests that wait, timers that run out, and members that outlive the broker."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import BrokerInMemory, Reply, SteppedDisk
from harness.group_requests import (
    HEARTBEAT,
    JOIN,
    LEAVE,
    REBALANCE_MS,
    SESSION_MS,
    SYNC,
    commit_fields,
    heartbeat_fields,
    join_fields,
    leave_fields,
    subscription,
    sync_fields,
)
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import make_topic

NONE = ErrorCode.none
REBALANCE, UNKNOWN_MEMBER_ID = ErrorCode.rebalance_in_progress, ErrorCode.unknown_member_id
GROUP, TOPIC = "readers", "ledger"
MINUTE_MS = 60_000


class GroupBroker(BrokerInMemory):
    """A broker that is asked for groups."""

    def __init__(self, **settings: str) -> None:
        clock = ManualClock()
        super().__init__(SteppedDisk(now_ms=clock.now_ms), clock, **settings)

    def join(self, member_id: str = "", version: int = 3, group: str = GROUP, **more: object) -> Reply:
        """Version 3 joins without being given an id first."""
        reply = self.send("join_group", version, **join_fields(version, group, member_id, **more))
        self.settle()
        return reply

    def sync(self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None) -> Reply:
        return self.send("sync_group", SYNC, **sync_fields(SYNC, GROUP, member_id, generation, assignments))

    def heartbeat(self, member_id: str, generation: int, group: str = GROUP) -> ErrorCode:
        fields = heartbeat_fields(HEARTBEAT, group, member_id, generation)
        return self.ask("heartbeat", HEARTBEAT, **fields).error_code

    def leave(self, *member_ids: str) -> None:
        fields = leave_fields(LEAVE, GROUP, [(member_id, None) for member_id in member_ids])
        answer = self.ask("leave_group", LEAVE, **fields)
        assert {member.error_code for member in answer.members} == {NONE}

    def commit(self, offset: int, member_id: str = "", generation: int = -1) -> ErrorCode:
        answer = self.ask("offset_commit", 8, **commit_fields(GROUP, TOPIC, {0: offset}, member_id, generation))
        return answer.topics[0].partitions[0].error_code

    def describe(self, group: str = GROUP) -> tuple[str, list[str]]:
        (found,) = self.ask("describe_groups", 5, groups=[group], include_authorized_operations=False).groups
        return found.group_state, [member.member_id for member in found.members]

    def offset(self) -> int:
        asked = {"group_id": GROUP, "require_stable": False}
        answer = self.ask("offset_fetch", 7, **asked, topics=[{"name": TOPIC, "partition_indexes": [0]}])
        return answer.topics[0].partitions[0].committed_offset

    def stable(self, **more: object) -> str:
        """A group of one member, in its first generation; returns the member's id."""
        reply = self.join(**more)
        self.clock.advance(0)
        member_id = reply.message.member_id
        assert self.sync(member_id, 1, {member_id: b"all"}).message.error_code is NONE
        return str(member_id)


@pytest.fixture
def broker() -> GroupBroker:
    broker = GroupBroker()
    make_topic(broker)
    return broker


def test_join_waits_for_everybody_and_sync_for_the_leader(broker: GroupBroker) -> None:
    leader = broker.stable()
    newcomer = broker.join()
    assert not newcomer.came
    assert broker.heartbeat(leader, 1) is REBALANCE
    again = broker.join(leader)
    assert again.message.generation_id == newcomer.message.generation_id == 2
    other = newcomer.message.member_id
    waits = broker.sync(other, 2)
    assert not waits.came
    broker.sync(leader, 2, {leader: b"one", other: b"two"})
    assert waits.message.assignment == b"two"
    assert broker.describe() == ("Stable", [leader, other])


def test_member_that_sends_nothing_is_gone_after_its_session_timeout(broker: GroupBroker) -> None:
    member_id = broker.stable()
    for _ in range(10):
        broker.clock.advance(SESSION_MS - 1)
        assert broker.heartbeat(member_id, 1) is NONE
    broker.clock.advance(SESSION_MS)
    assert broker.describe() == ("Empty", [])
    assert broker.heartbeat(member_id, 1) is UNKNOWN_MEMBER_ID


def test_commit_keeps_a_session_alive_and_a_refused_one_does_not(broker: GroupBroker) -> None:
    member_id = broker.stable()
    broker.clock.advance(SESSION_MS - 1)
    assert broker.commit(1, member_id, 1) is NONE
    broker.clock.advance(SESSION_MS - 1)
    assert broker.commit(2, member_id, 2) is ErrorCode.illegal_generation
    broker.clock.advance(1)
    assert broker.describe() == ("Empty", [])


def test_connection_that_closes_is_no_reason_to_remove_a_member(broker: GroupBroker) -> None:
    """KIP-62 leaves that to the session timeout: a restart of the network is not the end of a consumer."""
    member_id = broker.stable()
    broker.connection.close("gone")
    assert broker.describe() == ("Stable", [member_id])


def test_rebalance_goes_on_without_a_member_that_does_not_join_in_time(broker: GroupBroker) -> None:
    leader = broker.stable()
    newcomer = broker.join()
    for _ in range(REBALANCE_MS // 1000 - 1):
        broker.clock.advance(1000)
        assert broker.heartbeat(leader, 1) is REBALANCE
    assert not newcomer.came
    broker.clock.advance(1000)
    assert (newcomer.message.generation_id, newcomer.message.leader) == (2, newcomer.message.member_id)


def test_first_members_are_waited_for_as_long_as_the_setting_says() -> None:
    broker = GroupBroker(group_initial_rebalance_delay_ms="3000")
    first = broker.join()
    broker.clock.advance(2000)
    second = broker.join()
    broker.clock.advance(1000)
    assert not first.came
    broker.clock.advance(3000)
    assert first.message.generation_id == second.message.generation_id == 1


@pytest.mark.parametrize(("session_ms", "expected"), [(999, 26), (1000, 0), (2000, 0), (2001, 26)])
def test_session_timeouts_are_between_what_the_settings_say(session_ms: int, expected: int) -> None:
    broker = GroupBroker(group_min_session_timeout_ms="1000", group_max_session_timeout_ms="2000")
    reply = broker.join(session_ms=session_ms)
    broker.clock.advance(0)
    assert reply.message.error_code == expected


def test_group_is_full_when_the_setting_says() -> None:
    broker = GroupBroker(group_max_size="1")
    broker.stable()
    assert broker.join().message.error_code is ErrorCode.group_max_size_reached


def test_version_0_has_its_session_timeout_for_a_rebalance_timeout(broker: GroupBroker) -> None:
    leader = broker.stable(version=0, session_ms=20_000)
    newcomer = broker.join(version=0, session_ms=20_000)
    broker.clock.advance(10_000)
    broker.heartbeat(leader, 1)
    broker.clock.advance(10_000)
    assert newcomer.message.leader == newcomer.message.member_id


def test_groups_have_timers_of_their_own(broker: GroupBroker) -> None:
    slow = broker.join(group="slow", session_ms=20_000)
    member_id = broker.stable()
    slow_id = slow.message.member_id
    broker.clock.advance(SESSION_MS)
    assert broker.describe() == ("Empty", [])
    assert broker.describe("slow") == ("CompletingRebalance", [slow_id])
    assert member_id != slow_id


class TestRestart:
    """A member of a stable group does not notice that the broker was away."""

    @pytest.mark.parametrize("how", ["stop", "kill"])
    def test_members_go_on_with_their_heartbeats(self, broker: GroupBroker, how: str) -> None:
        leader = broker.stable()
        newcomer = broker.join()
        broker.join(leader)
        other = newcomer.message.member_id
        broker.sync(leader, 2, {leader: b"one", other: b"two"})
        assert broker.commit(7, other, 2) is NONE
        if how == "stop":
            broker.core.stop()
        else:
            broker.disk.kill()
        broker.restart()
        assert broker.describe() == ("Stable", [leader, other])
        assert broker.heartbeat(leader, 2) is broker.heartbeat(other, 2) is NONE
        assert broker.sync(other, 2).message.assignment == b"two"
        assert broker.commit(8, other, 2) is NONE
        assert broker.offset() == 8

    def test_sessions_begin_anew(self, broker: GroupBroker) -> None:
        member_id = broker.stable()
        broker.clock.advance(SESSION_MS - 1)
        broker.disk.kill()
        broker.restart()
        broker.clock.advance(SESSION_MS - 1)
        assert broker.describe() == ("Stable", [member_id])
        broker.clock.advance(1)
        assert broker.describe() == ("Empty", [])

    def test_generation_that_was_not_agreed_on_is_forgotten(self, broker: GroupBroker) -> None:
        leader = broker.stable()
        newcomer = broker.join()
        assert broker.join(leader).message.generation_id == 2
        broker.disk.kill()
        broker.restart()
        assert broker.heartbeat(leader, 2) is ErrorCode.illegal_generation
        assert broker.heartbeat(leader, 1) is NONE
        assert broker.heartbeat(newcomer.message.member_id, 2) is UNKNOWN_MEMBER_ID

    def test_static_member_that_came_back_is_known_by_its_new_id(self, broker: GroupBroker) -> None:
        broker.stable(version=JOIN, instance_id="i")
        new = broker.join(version=JOIN, instance_id="i").message.member_id
        broker.disk.kill()
        broker.restart()
        assert broker.describe() == ("Stable", [new])

    def test_group_that_was_emptied_or_deleted_stays_so(self, broker: GroupBroker) -> None:
        broker.leave(broker.stable())
        broker.disk.kill()
        broker.restart()
        assert broker.describe() == ("Empty", [])
        (result,) = broker.ask("delete_groups", 2, groups_names=[GROUP]).results
        assert result.error_code is NONE
        broker.disk.kill()
        broker.restart()
        assert broker.describe() == ("Dead", [])

    def test_broker_that_was_stopped_times_nobody_out(self, broker: GroupBroker) -> None:
        broker.stable()
        broker.core.stop()
        broker.clock.advance(10 * SESSION_MS)
        broker.restart()
        assert broker.describe()[0] == "Stable"


def test_generation_that_does_not_fit_into_a_batch_is_refused_and_leaves_the_group_as_it_was(
    broker: GroupBroker,
) -> None:
    member_id = broker.stable()
    broker.join(member_id)
    answer = broker.sync(member_id, 2, {member_id: b"x" * 2_000_000}).message
    assert (answer.error_code, answer.assignment) == (ErrorCode.unknown_server_error, b"")
    assert broker.describe()[0] == "CompletingRebalance"
    assert broker.sync(member_id, 2, {member_id: b"small"}).message.assignment == b"small"
    assert broker.failures == []


def test_empty_group_and_its_offsets_end_when_their_time_has_come() -> None:
    broker = GroupBroker(offsets_retention_minutes="10", offsets_retention_check_interval_ms="60000")
    make_topic(broker)
    member_id = broker.stable()
    broker.commit(7, member_id, 1)
    broker.leave(member_id)
    broker.clock.advance(9 * MINUTE_MS)
    assert broker.offset() == 7
    broker.clock.advance(2 * MINUTE_MS)
    assert broker.offset() == -1
    assert broker.describe() == ("Dead", [])
    broker.disk.kill()
    broker.restart()
    assert broker.ask("list_groups", 5, states_filter=[], types_filter=[]).groups == ()


def test_group_whose_topic_is_deleted_keeps_its_members(broker: GroupBroker) -> None:
    member_id = broker.stable(protocols={"range": subscription(TOPIC)})
    broker.commit(7, member_id, 1)
    broker.ask("delete_topics", 5, topic_names=[TOPIC], timeout=join_fields(JOIN, GROUP)["rebalance_timeout"])
    broker.settle()
    assert broker.offset() == -1
    assert broker.heartbeat(member_id, 1) is NONE


def test_group_may_be_asked_about_before_there_is_any(broker: GroupBroker) -> None:
    assert broker.heartbeat("m", 1) is UNKNOWN_MEMBER_ID
    assert broker.describe() == ("Dead", [])
    assert broker.ask("list_groups", 5, states_filter=[], types_filter=[]).groups == ()
    (result,) = broker.ask("delete_groups", 2, groups_names=[GROUP]).results
    assert result.error_code is ErrorCode.group_id_not_found


@pytest.mark.parametrize("rebalance_ms", [0, -1, -(2**31)])
def test_rebalance_that_nobody_can_lead_waits_although_its_time_is_up_at_once(
    broker: GroupBroker, rebalance_ms: int
) -> None:
    """A static member stays until its session ends (KIP-345), and its rebalance timeout is the client's to choose."""
    static = broker.join(version=5, instance_id="i", rebalance_ms=rebalance_ms)
    other = broker.join()
    broker.clock.advance(0)
    broker.leave(other.message.member_id)
    broker.clock.advance(1)
    assert broker.describe() == ("PreparingRebalance", [static.message.member_id])
    broker.clock.advance(SESSION_MS)
    assert broker.describe() == ("Empty", [])


def test_offsets_that_were_committed_without_a_transaction_survive_a_kill(broker: GroupBroker) -> None:
    assert broker.commit(7) is NONE
    broker.disk.kill()
    broker.restart()
    broker.ask("find_coordinator", 3, key=GROUP, key_type=0)
    assert broker.offset() == 7
