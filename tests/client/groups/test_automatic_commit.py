"""The automatic commit, which nobody waits for: what comes of the next one when its answer does not come, or says no."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from oncelog.client.consumer.fetching import FetchSettings
from oncelog.client.groups.consumer import GroupConsumer
from oncelog.client.groups.settings import GroupSettings
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import Send
from oncelog.client.values import Address
from oncelog.wire import ErrorCode
from tests.client.groups.members import MINE, Coordinator, Pumped
from tests.client.scripted import HELD, HERE, SETTINGS, ScriptedTransport

INTERVAL_MS = 10
ELSEWHERE = Address("elsewhere", 9092)


class Moving(Coordinator):
    """The group is to be found `at` an address. `searches` are errors that the next answers about that carry, or HELD."""

    def __init__(self, *codes, searches=()) -> None:
        super().__init__(OffsetCommit=codes, FindCoordinator=searches)
        self.at = HERE

    def findcoordinator(self, _, error):
        return SimpleNamespace(error_code=error, host=self.at.host, port=self.at.port)


class Recording(ScriptedTransport):
    """Knows whom each commit was sent to."""

    def __init__(self, answer) -> None:
        super().__init__(answer)
        self.commits = []

    def _perform(self, effect):
        if isinstance(effect, Send) and effect.request.api.name == "OffsetCommit":
            self.commits.append(effect.address)
        return super()._perform(effect)


class Assigned:
    """A consumer that commits for a group and is no member of it."""

    def __init__(self, coordinator) -> None:
        self.coordinator = coordinator
        self.transport = Recording(coordinator.answer)
        self.core = GroupConsumer(
            Cluster(SETTINGS),
            FetchSettings(),
            GroupSettings("group"),
            reset=None,
            include_control=False,
            auto_commit_interval_ms=INTERVAL_MS,
            wake_poll=lambda: None,
            wake_member=lambda: None,
            new_member_id="",
        )
        self.transport.run(self.core.assign({MINE: 5}))

    def poll_for(self, time_ms) -> None:
        until_ms = self.transport.now_ms + time_ms
        while self.transport.now_ms < until_ms:
            self.transport.run(self.core.poll(1, 10))

    def poll_until_committed(self, times) -> None:
        for _ in range(1000):
            if len(self.transport.commits) >= times:
                return
            self.transport.run(self.core.poll(1, 10))
        raise AssertionError("it did not come about")


def test_commit_whose_answer_does_not_come_is_followed_by_one_to_who_coordinates_then():
    consumer = Assigned(Moving(HELD))
    consumer.poll_until_committed(1)
    consumer.coordinator.at = ELSEWHERE
    consumer.poll_for(SETTINGS.request_timeout_ms / 2)
    assert consumer.transport.commits == [HERE]
    consumer.poll_for(SETTINGS.request_timeout_ms)
    assert consumer.transport.commits[:3] == [HERE, ELSEWHERE, ELSEWHERE]


@pytest.mark.parametrize("code", [None, ErrorCode.not_coordinator, ErrorCode.coordinator_not_available])
def test_commit_that_did_not_reach_the_coordinator_is_followed_by_one_that_does(code):
    consumer = Assigned(Moving(code))
    consumer.poll_until_committed(1)
    consumer.coordinator.at = ELSEWHERE
    consumer.poll_until_committed(2)
    assert consumer.transport.commits == [HERE, ELSEWHERE]


@pytest.mark.parametrize("code", [ErrorCode.none, ErrorCode.unknown_member_id, ErrorCode.request_timed_out])
def test_coordinator_that_answers_for_the_group_is_looked_for_once(code):
    consumer = Assigned(Moving(code))
    consumer.poll_until_committed(3)
    assert consumer.coordinator.seen.count("FindCoordinator") == 1


def test_coordinator_that_others_have_found_meanwhile_is_not_forgotten():
    consumer = Assigned(Moving(HELD))
    consumer.poll_until_committed(1)
    cluster, kind = consumer.core._cluster, 0
    cluster.forget_coordinator(kind, "group")
    consumer.coordinator.at = ELSEWHERE
    retries = consumer.transport.run(cluster.retries())
    consumer.transport.run(cluster.coordinator(kind, "group", retries))
    consumer.poll_until_committed(2)
    assert consumer.transport.commits == [HERE, ELSEWHERE]
    assert consumer.coordinator.seen.count("FindCoordinator") == 2


@pytest.mark.parametrize("search", [HELD, ErrorCode.coordinator_not_available])
def test_poll_does_not_wait_for_a_coordinator_that_is_not_found(search):
    consumer = Assigned(Moving(searches=[search] * 3))
    consumer.poll_for(2 * INTERVAL_MS)
    before_ms = consumer.transport.now_ms
    consumer.transport.run(consumer.core.poll(1, 10))
    assert consumer.transport.now_ms - before_ms < SETTINGS.request_timeout_ms / 2
    consumer.poll_until_committed(1)


def test_members_commit_whose_answer_does_not_come_is_followed_by_another_one():
    """Its heartbeats are on their way to the coordinator over another connection, and are answered."""
    member = Pumped(Coordinator(OffsetCommit=[HELD]), auto_commit_interval_ms=INTERVAL_MS)
    member.join()
    for times in (1, 2, 3):
        member.transport.now_ms += SETTINGS.request_timeout_ms
        member.poll()
        heartbeats = member.coordinator.seen.count("Heartbeat")
        member.pump(lambda heartbeats=heartbeats: member.coordinator.seen.count("Heartbeat") > heartbeats + 1)
        member.poll()
        assert member.coordinator.seen.count("OffsetCommit") >= times
