"""Requests that ZooKeeper does not take: they are answered here, and the connection stays."""

from __future__ import annotations

import pytest

from oncelog.cluster.zookeeper.conversation import REQUEST_BYTES_MAX, Conversation
from oncelog.cluster.zookeeper.session import Check, Create, GetData, Multi, Request, Results, SetData, ZooKeeperError

LARGE = bytes(REQUEST_BYTES_MAX)
LONG = "/" + "é" * (REQUEST_BYTES_MAX // 2)
ROLLED_BACK, SYSTEM_ERROR, NOT_TRIED = ZooKeeperError.ROLLED_BACK, ZooKeeperError.SYSTEM_ERROR, ZooKeeperError.NOT_TRIED


class Connected:
    def __init__(self) -> None:
        self.sent: list[Request] = []
        self.conversation = Conversation(self.sent.append)
        self.conversation.connected(1)


@pytest.mark.parametrize("request_", [Create("/a", LARGE), SetData("/a", LARGE), GetData(LONG)])
def test_request_that_is_too_large_is_not_sent(request_: Request) -> None:
    connected = Connected()
    before = connected.conversation.submit(GetData("/a"))
    refused = connected.conversation.submit(request_)
    assert refused.value is SYSTEM_ERROR
    assert connected.sent == [GetData("/a")]
    connected.conversation.answered(ZooKeeperError.NO_NODE)
    assert before.value is ZooKeeperError.NO_NODE


def test_of_a_multi_that_is_too_large_the_largest_write_has_failed() -> None:
    connected = Connected()
    writes = (Check("/a", 1), SetData("/a", LARGE), Check("/b", 1))
    refused = connected.conversation.submit(Multi(writes))
    assert refused.value == Results((ROLLED_BACK, SYSTEM_ERROR, NOT_TRIED))
    assert connected.sent == []


def test_request_that_is_nearly_too_large_is_sent() -> None:
    connected = Connected()
    request = SetData("/a", LARGE[:-1000])
    connected.conversation.submit(request)
    assert connected.sent == [request]
