"""A member of the classic protocol against a coordinator that a test makes up: what each answer does to the membership."""

from __future__ import annotations

import pytest

from oncelog.client.errors import BrokerRefused, CommitFailed, MemberFenced, RetriesExhausted
from oncelog.client.groups.assignors import decode_subscription
from oncelog.client.values import OffsetAndMetadata
from tests.client.groups.members import MINE, Coordinator, Pumped
from tests.client.scripted import SETTINGS


def test_member_joins_in_two_steps_and_reads_from_where_the_group_was():
    """KIP-394: a member without an id is given one first, so that one that never comes back is not waited for."""
    member = Pumped(Coordinator(JoinGroup=[79]))
    member.join()
    assert [fields["member_id"] for fields in member.coordinator.joined] == ["", "given"]
    assert member.told == [("+", {MINE})]
    assert member.core.position(MINE) == 5
    assert member.core.metadata().generation_id == 1


@pytest.mark.parametrize("code", [14, 15, 16, None])
@pytest.mark.parametrize("name", ["JoinGroup", "SyncGroup", "Heartbeat"])
def test_coordinator_that_is_busy_or_elsewhere_is_asked_again(name, code):
    member = Pumped(Coordinator(**{name: [code]}))
    member.join()
    member.pump(lambda: member.coordinator.seen.count("Heartbeat") > 2)
    assert member.core.metadata().member_id == "given"
    member.poll()
    assert [kind for kind, _ in member.told] in (["+"], ["+", "-"])


def test_rebalance_has_an_eager_member_give_up_everything_before_it_joins():
    member = Pumped(Coordinator(Heartbeat=[27]))
    member.join()
    member.pump(lambda: not member.core.member.handover.is_complete)
    assert member.coordinator.seen.count("JoinGroup") == 1
    member.pump(lambda: member.coordinator.seen.count("Heartbeat") > 3)
    assert member.coordinator.seen.count("JoinGroup") == 1
    member.poll()
    assert member.told == [("+", {MINE}), ("-", {MINE})]
    member.pump(lambda: member.core.metadata().generation_id == 2)


def test_rebalance_lets_a_cooperative_member_keep_what_it_has():
    """KIP-429: it joins with what it owns, and is told nothing when that stays with it."""
    member = Pumped(Coordinator(Heartbeat=[27]), "cooperative-sticky")
    member.join()
    member.pump(lambda: member.core.metadata().generation_id == 2)
    rejoined = decode_subscription(member.coordinator.joined[-1]["protocols"][0]["metadata"], None)
    assert (rejoined.owned, rejoined.generation_id) == ({MINE}, 1)
    member.poll()
    assert member.told == [("+", {MINE})]


@pytest.mark.parametrize(("code", "kept_id"), [(25, ""), (22, "given")])
def test_expelled_member_stays_out_until_the_user_was_told(code, kept_id):
    member = Pumped(Coordinator(Heartbeat=[code]))
    member.join()
    member.pump(lambda: not member.core.member.handover.is_complete)
    with pytest.raises(CommitFailed):
        member.core.metadata()
    with pytest.raises(CommitFailed):
        member.transport.run(member.core.commit({MINE: OffsetAndMetadata(6)}))
    started_ms = member.transport.now_ms
    member.pump(lambda: member.transport.now_ms > started_ms + 100)
    assert member.coordinator.seen.count("JoinGroup") == 1
    member.poll()
    assert member.told == [("+", {MINE}), ("!", {MINE})]
    member.pump(lambda: member.coordinator.seen.count("JoinGroup") == 2)
    assert member.coordinator.joined[-1]["member_id"] == kept_id


@pytest.mark.parametrize(
    ("code", "error"), [(82, MemberFenced), (23, BrokerRefused), (26, BrokerRefused), (81, BrokerRefused)]
)
def test_answer_that_joining_again_does_not_change_comes_out_of_poll(code, error):
    member = Pumped(Coordinator(JoinGroup=[code]))
    member.poll()
    with pytest.raises(StopIteration):
        member.pump(lambda: False)
    for _ in range(2):
        with pytest.raises(error):
            member.poll()


def test_coordinator_that_stays_away_comes_out_of_poll():
    member = Pumped(Coordinator(JoinGroup=[15] * 1000))
    member.poll()
    member.pump(lambda: member.transport.now_ms > 2 * SETTINGS.call_timeout_ms)
    with pytest.raises(RetriesExhausted, match="COORDINATOR_NOT_AVAILABLE"):
        member.poll()


@pytest.mark.parametrize("then", [0, None], ids=["answers", "is lost"])
def test_coordinator_that_keeps_its_answer_while_others_join_has_not_failed(then):
    """It may take as long as the others' max_poll_interval_ms, and what came of earlier tries is over."""
    member = Pumped(Coordinator(JoinGroup=[16, then]))
    member.poll()
    member.pump(lambda: member.core.member._is_kept_waiting and member.coordinator.seen.count("JoinGroup") == 2)
    member.transport.now_ms += 2 * SETTINGS.call_timeout_ms
    member.poll()
    member.join()


def test_commit_waits_for_a_rebalance_and_is_sent_in_the_generation_that_follows():
    member = Pumped(Coordinator(OffsetCommit=[27]))
    member.join()
    member.transport.run(member.core.commit({MINE: OffsetAndMetadata(6)}))
    assert member.coordinator.seen.count("OffsetCommit") == 2


@pytest.mark.parametrize(
    ("code", "error"), [(22, CommitFailed), (25, CommitFailed), (82, MemberFenced), (12, BrokerRefused)]
)
def test_refused_commit_says_what_it_means(code, error):
    member = Pumped(Coordinator(OffsetCommit=[code]))
    member.join()
    with pytest.raises(BrokerRefused) as raised:
        member.transport.run(member.core.commit({MINE: OffsetAndMetadata(6)}))
    assert type(raised.value) is error
    assert raised.value.error == code
