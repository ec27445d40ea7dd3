"""The connections of one broker to the others, which come and go."""

from __future__ import annotations

from typing import Any

from harness.broker_in_memory import CountingRandom
from harness.manual_clock import ManualClock
from harness.network_in_memory import NetworkInMemory
from oncelog.broker.view import ClusterNode
from oncelog.cluster.channel import ChannelError, Channels, ChannelState, Failure
from oncelog.cluster.messages import CONTROLLED_SHUTDOWN
from oncelog.coordination import Task, start
from oncelog.wire import message_class

FIRST, SECOND = ClusterNode(1, "first", 9092, None), ClusterNode(2, "second", 9092, None)


def make() -> tuple[NetworkInMemory, Channels]:
    network = NetworkInMemory()
    return network, Channels(network, ManualClock(), CountingRandom(), "0")


def ask(channels: Channels, node: ClusterNode) -> Task[Any]:
    body = message_class(CONTROLLED_SHUTDOWN, 3, "request")(broker_id=0, broker_epoch=5)
    return start(channels.to(node).ask(CONTROLLED_SHUTDOWN, 3, body, 30_000))


def test_who_waits_for_a_broker_that_is_dead_is_told_so_at_once() -> None:
    """One that was suspended keeps its connections, and answers nothing: the controller knows sooner than any timeout."""
    network, channels = make()
    waiting, other = ask(channels, FIRST), ask(channels, SECOND)
    for link in network.links:
        link.accept()
    channels.keep({2})
    assert waiting.is_resolved
    assert isinstance(waiting.value, ChannelError)
    assert waiting.value.failure is Failure.UNKNOWN
    assert [link.is_closed for link in network.links] == [True, False]
    assert not other.is_resolved


def test_broker_that_is_alive_again_gets_another_channel() -> None:
    _, channels = make()
    before = channels.to(FIRST)
    channels.keep(())
    assert before.state is ChannelState.CLOSED
    assert channels.to(FIRST) is not before
    assert channels.to(FIRST).state is ChannelState.DISCONNECTED


def test_broker_that_has_moved_gets_another_channel() -> None:
    _, channels = make()
    before = channels.to(FIRST)
    after = channels.to(FIRST._replace(port=9093))
    assert after is not before
    assert before.state is ChannelState.CLOSED
    assert channels.to(FIRST._replace(port=9093)) is after
