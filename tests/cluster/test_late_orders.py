"""Orders that come late, on a connection that the controller has left.

Kafka's ControllerChannelManager has one connection to each broker, and one request under way on it. What got no answer there is
said again on the next connection, and what comes after it, too; the broker may get the first copy behind all of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.cluster_in_memory import ClusterInMemory, PlayedController
from harness.cluster_messages import TOPIC, errors_of, known, led, stopped
from oncelog.broker.storage.partition import ReplicaRole
from oncelog.cluster.channel import Channel, ChannelError
from oncelog.wire import ErrorCode

BROKER, OTHER, THIRD = 0, 1, 2
ALL = (BROKER, OTHER, THIRD)
EPOCH_DURING_DELETE = -2
NONE = ErrorCode.none


class Ordered:
    """A controller that has spoken on one connection, left it, and spoken on another."""

    def __init__(self) -> None:
        self.cluster = ClusterInMemory(BROKER)
        self.controller = PlayedController(self.cluster)
        self.controller.starts(BROKER)
        self.older, self.younger = self.cluster.channel(BROKER), self.cluster.channel(BROKER)
        assert errors_of(self.ask(self.older, self.controller.order_to(BROKER, led(OTHER, 3, ALL)))) == [NONE]
        assert errors_of(self.ask(self.younger, self.controller.order_to(BROKER, led(BROKER, 4, ALL)))) == [NONE]
        assert self.ask(self.younger, self.controller.update_to(BROKER, known(BROKER, 4, ALL))).error_code is NONE

    def ask(self, channel: Channel, body: Any) -> Any:
        return self.cluster.wait(self.cluster.send_on(channel, body))

    @property
    def state(self) -> tuple[ReplicaRole, int, int]:
        """What the broker is to the partition, who leads it, and since which epoch, as the broker knows."""
        found = self.cluster.core(BROKER).topics.partition(TOPIC, 0)
        assert found is not None
        return found.role, found.leadership.leader, found.leadership.leader_epoch


Order = Callable[[PlayedController], Any]


@pytest.fixture
def ordered() -> Ordered:
    return Ordered()


@pytest.mark.parametrize(
    "order",
    [
        lambda controller: controller.update_to(BROKER, known(OTHER, 3, ALL)),
        lambda controller: controller.order_to(BROKER, led(OTHER, 3, ALL)),
        lambda controller: controller.stop_to(BROKER, stopped(EPOCH_DURING_DELETE, delete=True)),
    ],
    ids=["UpdateMetadata", "LeaderAndIsr", "StopReplica"],
)
def test_late_order_is_not_carried_out_and_its_connection_is_closed(ordered: Ordered, order: Order) -> None:
    assert isinstance(ordered.ask(ordered.older, order(ordered.controller)), ChannelError)
    assert ordered.state == (ReplicaRole.LEADER, BROKER, 4)


def test_controller_goes_on_where_it_spoke_last(ordered: Ordered) -> None:
    ordered.ask(ordered.older, ordered.controller.update_to(BROKER, known(OTHER, 3, ALL)))
    newer = ordered.controller.update_to(BROKER, known(THIRD, 5, ALL))
    assert ordered.ask(ordered.younger, newer).error_code is NONE
    assert ordered.state[1:] == (THIRD, 5)


def test_controller_that_was_taken_for_one_that_left_is_heard_on_its_next_connection(ordered: Ordered) -> None:
    """Whoever else speaks for a controller must not keep it from a broker."""
    newer = ordered.controller.update_to(BROKER, known(THIRD, 5, ALL))
    assert isinstance(ordered.ask(ordered.older, newer), ChannelError)
    assert ordered.ask(ordered.older, newer).error_code is NONE
    assert ordered.state[1:] == (THIRD, 5)


def test_next_controller_is_heard_on_whichever_connection(ordered: Ordered) -> None:
    newer = ordered.controller.update_to(BROKER, known(THIRD, 5, ALL), controller_epoch=ordered.controller.next_epoch())
    assert ordered.ask(ordered.older, newer).error_code is NONE
    assert ordered.state[1:] == (THIRD, 5)
