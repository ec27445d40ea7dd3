"""Channels to the other brokers: one to each, at the place where it is now."""

from __future__ import annotations

import pytest

from harness.broker_in_memory import CountingRandom
from harness.manual_clock import ManualClock
from harness.network_in_memory import NetworkInMemory
from oncelog.broker.view import ClusterNode
from oncelog.cluster.channel import ChannelError, ChannelState, Failure
from oncelog.cluster.channels import Channels
from oncelog.coordination import start

FETCH = 1
NODE, MOVED, OTHER = (
    ClusterNode(1, "one", 9092, None),
    ClusterNode(1, "one", 9093, None),
    ClusterNode(2, "two", 9092, None),
)


@pytest.fixture
def channels() -> Channels:
    return Channels(NetworkInMemory(), ManualClock(), CountingRandom(), "broker-0-fetcher-0")


def test_a_broker_has_one_channel(channels: Channels) -> None:
    assert channels.to(NODE) is channels.to(NODE)
    assert channels.to(NODE) is channels.to(ClusterNode(1, "one", 9092, "another rack"))
    assert channels.to(OTHER) is not channels.to(NODE)


def test_a_broker_that_has_moved_has_another_and_who_waits_on_the_old_one_is_told(channels: Channels) -> None:
    before = channels.to(NODE)
    waiting = start(before.ask(FETCH, 17, None, 1_000))
    after = channels.to(MOVED)
    assert after is not before
    assert before.state is ChannelState.CLOSED
    answer = waiting.value
    assert isinstance(answer, ChannelError)
    assert answer.failure is Failure.UNREACHABLE
    assert channels.to(MOVED) is after


def test_closing_closes_all(channels: Channels) -> None:
    some = [channels.to(NODE), channels.to(OTHER)]
    channels.close()
    assert [one.state for one in some] == [ChannelState.CLOSED] * 2
