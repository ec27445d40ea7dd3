"""Markers that come late, on a connection that the broker which sent them has left."""

from __future__ import annotations

from typing import Any

import pytest

from harness.cluster_in_memory import ClusterInMemory, PlayedController
from harness.cluster_messages import TOPIC, WRITE_TXN_MARKERS, errors_of, led, live_broker
from oncelog.broker.coordinators.known_brokers import MarkersOfProducer
from oncelog.broker.coordinators.marker_senders import client_id_of
from oncelog.broker.coordinators.markers import marker_errors, markers_request
from oncelog.cluster.channel import Channel, ChannelError
from oncelog.coordination import start
from oncelog.wire import ErrorCode

BROKER, COORDINATOR, OTHER = 0, 1, 2
PRODUCER_ID = 7
MARKERS = MarkersOfProducer(PRODUCER_ID, 0, 3, 0, True, ((TOPIC, 0),))


class Marked:
    def __init__(self) -> None:
        self.cluster = ClusterInMemory(BROKER)
        controller = PlayedController(self.cluster)
        controller.members += [live_broker(one, f"broker-{one}") for one in (COORDINATOR, OTHER)]
        controller.starts(BROKER)
        assert errors_of(controller.order(BROKER, led(BROKER, 0, (BROKER,)))) == [ErrorCode.none]

    def mark(self, channel: Channel) -> bool:
        """Whether the markers were written; else the connection was closed."""
        asked = channel.ask_newest(WRITE_TXN_MARKERS, 1, 2, lambda version: markers_request(version, [MARKERS]), 60_000)
        answer: Any = self.cluster.wait(start(asked))
        if isinstance(answer, ChannelError):
            return False
        assert marker_errors(answer) == {(PRODUCER_ID, TOPIC, 0): ErrorCode.none}
        return True

    @property
    def written(self) -> int:
        return self.cluster.partition(BROKER).log.log_end_offset


@pytest.fixture
def marked() -> Marked:
    return Marked()


def test_markers_on_a_connection_that_their_coordinator_has_left_end_nothing(marked: Marked) -> None:
    """By then the producer's next transaction may be open, of the same epoch (KIP-98)."""
    left, used = (marked.cluster.channel(BROKER, client_id_of(COORDINATOR)) for _ in range(2))
    assert marked.mark(left)
    assert marked.mark(used)
    assert not marked.mark(left)
    assert marked.written == 2
    assert marked.mark(used)


def test_coordinator_whose_connection_was_closed_is_heard_on_its_next_one(marked: Marked) -> None:
    left, used = (marked.cluster.channel(BROKER, client_id_of(COORDINATOR)) for _ in range(2))
    assert marked.mark(left)
    assert marked.mark(used)
    assert not marked.mark(left)
    assert marked.mark(left)


@pytest.mark.parametrize("client_id", [client_id_of(OTHER), client_id_of(99), "adminclient-1"])
def test_connections_of_others_are_in_nobodys_way(marked: Marked, client_id: str) -> None:
    """An administrator's connections are many at the same time (KIP-664), and who is not alive is not remembered."""
    older, younger = (
        marked.cluster.channel(BROKER, client_id),
        marked.cluster.channel(BROKER, client_id_of(COORDINATOR)),
    )
    assert marked.mark(older)
    assert marked.mark(younger)
    assert marked.mark(older)
