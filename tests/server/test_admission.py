"""Limits on connections: the one too many waits, or is closed, and no other notices."""

from __future__ import annotations

import pytest

from harness.wire import Connection
from oncelog.testing import broker


def asks(connection: Connection) -> bool:
    return bool(connection.ask("api_versions", 0).api_keys)


def test_connection_beyond_the_limit_waits_until_another_is_closed() -> None:
    with broker(max_connections=2) as node:
        first, second, third = (Connection(node.bootstrap_servers, timeout_seconds=10) for _ in range(3))
        assert asks(first)
        assert asks(second)
        third.send("api_versions", 0)
        third.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            third.receive("api_versions", 0)
        assert asks(first)
        second.close()
        third.socket.settimeout(10)
        assert third.receive("api_versions", 0).api_keys
        first.close()
        third.close()


def test_stop_of_a_broker_that_is_full_is_a_quiet_one(caplog: pytest.LogCaptureFixture) -> None:
    with broker(max_connections=1) as node:
        first, second = (Connection(node.bootstrap_servers, timeout_seconds=10) for _ in range(2))
        assert asks(first)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
    first.close()
    second.close()


def test_connection_beyond_the_limit_of_its_address_is_closed() -> None:
    with broker(max_connections_per_ip=1) as node:
        first = Connection(node.bootstrap_servers, timeout_seconds=10)
        assert asks(first)
        second = Connection(node.bootstrap_servers, timeout_seconds=10)
        assert second.socket.recv(1) == b""
        assert asks(first)
        first.close()
        second.close()
