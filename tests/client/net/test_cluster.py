"""Asking until somebody answers, and what is told when nobody does."""

from __future__ import annotations

import pytest

from oncelog.client.errors import ConnectionLost, RetriesExhausted
from oncelog.client.net.cluster import Cluster, CoordinatorKind, ask_coordinator, refresh
from oncelog.client.requests import HEARTBEAT, ApiRequest
from oncelog.wire import ErrorCode
from tests.client.scripted import SETTINGS, ScriptedTransport


class HangingUp:
    """A broker that hangs up on everybody. What a call asks at last is cut short by the end of the call."""

    def __init__(self) -> None:
        self.transport = ScriptedTransport(self.answer)

    def answer(self, request: ApiRequest) -> ConnectionLost:
        if self.transport.now_ms < SETTINGS.call_timeout_ms / 2:
            return ConnectionLost("it hung up", sent=True)
        self.transport.now_ms = SETTINGS.call_timeout_ms
        return ConnectionLost("no connection in time", sent=False)


@pytest.mark.parametrize(
    "ask",
    [
        lambda cluster: refresh(cluster, ["t"]),
        lambda cluster: ask_coordinator(
            cluster, CoordinatorKind.GROUP, "g", ApiRequest(HEARTBEAT, {}), lambda _: ErrorCode.none, "a heartbeat"
        ),
    ],
    ids=["anybody", "the coordinator"],
)
def test_call_that_ends_in_the_middle_of_a_try_tells_of_the_one_before(ask):
    broker = HangingUp()
    with pytest.raises(RetriesExhausted, match="it hung up"):
        broker.transport.run(ask(Cluster(SETTINGS)))
    assert broker.transport.now_ms == SETTINGS.call_timeout_ms
