"""A member of the classic protocol against a coordinator that a test makes up: what each answer does to the membership."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from oncelog.client.consumer.fetching import FetchSettings
from oncelog.client.consumer.offset_reset import parse_reset
from oncelog.client.errors import BrokerRefused, CommitFailed, MemberFenced, RetriesExhausted
from oncelog.client.groups.consumer import GroupConsumer
from oncelog.client.groups.settings import Callbacks, GroupSettings
from oncelog.client.groups.subscription import decode_subscription, encode_assignment
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.conversation import Wait
from oncelog.client.values import OffsetAndMetadata, TopicPartition
from oncelog.wire import ErrorCode
from tests.client.scripted import HELD, HERE, SETTINGS, ScriptedTransport, lost

TOPIC = "orders"
MINE = TopicPartition(TOPIC, 0)


class Coordinator:
    """Takes one member in. `codes` are the errors that the next answers of an API carry instead, None a lost connection.

    An answer that is HELD does not come.
    """

    def __init__(self, **codes) -> None:
        self.codes = {name: list(several) for name, several in codes.items()}
        self.generation = 0
        self.joined = []
        self.seen = []

    def answer(self, request):
        name = request.api.name
        self.seen.append(name)
        codes = self.codes.get(name, [])
        code = codes.pop(0) if codes else 0
        if code is None:
            return lost()
        if code is HELD:
            return HELD
        return getattr(self, name.lower())(request.fields, ErrorCode(code))

    def findcoordinator(self, _, error):
        return SimpleNamespace(error_code=error, host=HERE.host, port=HERE.port)

    def metadata(self, *_):
        partition = SimpleNamespace(
            error_code=ErrorCode.none, partition_index=0, leader_id=1, replica_nodes=(1,), isr_nodes=(1,)
        )
        topic = SimpleNamespace(error_code=ErrorCode.none, name=TOPIC, is_internal=False, partitions=[partition])
        node = SimpleNamespace(node_id=1, host=HERE.host, port=HERE.port, rack=None)
        return SimpleNamespace(controller_id=1, brokers=[node], topics=[topic])

    def joingroup(self, fields, error):
        self.joined.append(fields)
        if error is not ErrorCode.none:
            return SimpleNamespace(error_code=error, member_id="given")
        self.generation += 1
        metadata = fields["protocols"][0]["metadata"]
        member = SimpleNamespace(member_id="given", group_instance_id=None, metadata=metadata)
        return SimpleNamespace(
            error_code=error,
            member_id="given",
            generation_id=self.generation,
            leader="given",
            protocol_name=fields["protocols"][0]["name"],
            members=[member],
        )

    def syncgroup(self, fields, error):
        (given,) = fields["assignments"] or [{"assignment": encode_assignment([])}]
        return SimpleNamespace(error_code=error, assignment=given["assignment"])

    def heartbeat(self, _, error):
        return SimpleNamespace(error_code=error)

    def fetch(self, *_):
        return SimpleNamespace(responses=[])

    def leavegroup(self, _, error):
        return SimpleNamespace(error_code=error)

    def offsetfetch(self, *_):
        partition = SimpleNamespace(
            partition_index=0, committed_offset=5, committed_leader_epoch=-1, metadata="", error_code=ErrorCode.none
        )
        return SimpleNamespace(error_code=ErrorCode.none, topics=[SimpleNamespace(name=TOPIC, partitions=[partition])])

    def offsetcommit(self, fields, error):
        self.joined.append(fields)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[SimpleNamespace(error_code=error)])])


class Pumped:
    """A consumer whose pump runs until it waits for something that only a poll could bring."""

    def __init__(self, coordinator, *assignors, auto_commit_interval_ms=None) -> None:
        self.coordinator = coordinator
        self.transport = ScriptedTransport(coordinator.answer)
        self.told = []
        settings = GroupSettings("group", assignors=assignors or ("range",), heartbeat_interval_ms=10)
        self.core = GroupConsumer(
            Cluster(SETTINGS),
            FetchSettings(),
            settings,
            reset=parse_reset("earliest"),
            include_control=False,
            auto_commit_interval_ms=auto_commit_interval_ms,
            wake_poll=lambda: None,
            wake_pump=lambda: None,
            new_member_id="",
        )
        tell = {name: lambda partitions, name=name: self.told.append((name, partitions)) for name in ("+", "-", "!")}
        self.core.subscribe([TOPIC], Callbacks(tell["+"], tell["-"], tell["!"]))
        self._pump = self.core.member.pump()
        self._effect = next(self._pump)

    def pump(self, is_so) -> None:
        """Run the pump until it is so."""
        for _ in range(1000):
            if is_so():
                return
            self._effect = self._pump.send(self._perform(self._effect))
        raise AssertionError("it did not come about")

    def _perform(self, effect):
        is_idle = isinstance(effect, Wait) and effect.until_woken and effect.timeout_ms is None and not effect.tickets
        return [] if is_idle else self.transport._perform(effect)

    def poll(self) -> None:
        self.transport.run(self.core.poll(0, 10))

    def join(self) -> None:
        """Become a member, and hear of the partition."""
        self.poll()
        self.pump(lambda: not self.core.member.handover.is_settled)
        self.poll()
        assert self.core.assignment == {MINE}


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
    member.pump(lambda: not member.core.member.handover.is_settled)
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
    member.pump(lambda: not member.core.member.handover.is_settled)
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
