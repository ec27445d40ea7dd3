"""Settings and fields that become timers: no value that is taken keeps the broker busy, or stops it."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode

from harness.consumer_group_requests import HEARTBEAT
from harness.consumer_group_requests import join_fields as consumer_fields
from harness.group_requests import join_fields
from harness.oncelog_process import OncelogNode
from harness.wire import Connection
from oncelog.broker.config.setting import Effect, Setting
from oncelog.broker.config.settings import BROKER_SETTINGS
from oncelog.client import Producer

UNITS = (".ms", ".minutes", ".hours", ".seconds")
NO_TIMERS = ("group.consumer.", "log.message.timestamp.")
"""The first are bound to each other, the second are about records."""
WATCHED_S = 1.0
WARM_UP_S = 1.5
"""A second after it began, a broker loads what its start left out."""
BUSY = 0.5
"""The part of a processor that a broker may use for looking at things as often as its settings ask for."""


def timed() -> list[Setting]:
    return [
        setting
        for setting in BROKER_SETTINGS.values()
        if setting.name.endswith(UNITS) and setting.effect is Effect.FULL and setting.kind in ("int", "long")
    ]


def least(setting: Setting) -> str:
    value = int(setting.minimum or 0)
    return str(value if value >= 0 and (setting.checks is None or setting.checks(value) is None) else 1)


def largest(setting: Setting) -> str:
    assert setting.maximum is not None
    return str(int(setting.maximum))


def start(directory: Path, settings: dict[str, str]) -> OncelogNode:
    node = OncelogNode(directory, **{name.replace(".", "_"): value for name, value in settings.items()})
    node.start()
    return node


def cpu_s(node: OncelogNode) -> float:
    fields = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def use(node: OncelogNode) -> None:
    """Have every kind of timer run."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    config = {"file.delete.delay.ms": str(2**63 - 1), "segment.ms": "1"}
    admin.create_topics([NewTopic("t", 100, 1, config=config)])["t"].result(30)
    with Producer(node.bootstrap_servers) as producer:
        for value in (b"a", b"b"):
            producer.send("t", value).result(30_000)
    connection = Connection(node.bootstrap_servers)
    for number, timeout_ms in enumerate((0, -1, 2**31 - 1, -(2**31))):
        connection.send("join_group", 9, **join_fields(9, f"g{number}", session_ms=timeout_ms, rebalance_ms=timeout_ms))
        connection.receive_frame()
        fields = consumer_fields(HEARTBEAT, f"c{number}", f"member-{number}", ["t"])
        fields["rebalance_timeout"] = timedelta(milliseconds=timeout_ms)
        connection.send("consumer_group_heartbeat", HEARTBEAT, **fields)
        connection.receive_frame()
        fields = {"transactional_id": f"x{number}", "transaction_timeout": timedelta(milliseconds=timeout_ms)}
        connection.ask("init_producer_id", 4, **fields, producer_id=-1, producer_epoch=-1)
    connection.close()


@pytest.mark.parametrize("value", [least, largest])
def test_extreme_settings_leave_the_broker_idle_and_serving(tmp_path, value):
    settings = {one.name: value(one) for one in timed() if not one.name.startswith(NO_TIMERS)}
    # Kafka closes idle connections then as fast as it looks, and so do we: nobody could be served in between.
    settings.pop("connections.max.idle.ms")
    node = start(tmp_path, settings)
    use(node)
    time.sleep(WARM_UP_S)
    before_s = cpu_s(node)
    time.sleep(WATCHED_S)
    assert cpu_s(node) - before_s < BUSY * WATCHED_S
    connection = Connection(node.bootstrap_servers)
    assert connection.ask("api_versions", 0).error_code is ErrorCode.none
    connection.close()
    node.stop()
    assert "Traceback" not in node.tail()


@pytest.mark.parametrize("limit_ms", ["0", "1", str(2**63 - 1)])
def test_extreme_limits_on_idle_connections_leave_the_broker_idle(tmp_path, limit_ms):
    node = OncelogNode(tmp_path, connections_max_idle_ms=limit_ms)
    node.launch()
    while "is ready" not in node.tail():
        time.sleep(0.01)
    time.sleep(WARM_UP_S)
    before_s = cpu_s(node)
    connection = Connection(node.bootstrap_servers)
    assert connection.ask("api_versions", 0).error_code is ErrorCode.none
    time.sleep(WATCHED_S)
    assert cpu_s(node) - before_s < BUSY * WATCHED_S
    connection.close()
    node.stop()
    assert "Traceback" not in node.tail()
