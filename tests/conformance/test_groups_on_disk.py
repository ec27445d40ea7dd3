"""What a killed broker leaves of its groups: its next process goes on from it, and Kafka's own tool reads it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from harness.conformance.group_client import GroupClient, settle, stable
from harness.dump_log import dump
from harness.processes import BrokerProcess
from harness.wire import Connection

GROUP = "readers"


def coordinated(node: BrokerProcess) -> None:
    connection = Connection(node.bootstrap_servers)
    assert connection.ask("find_coordinator", 3, key=GROUP, key_type=0).error_code is ErrorCode.none
    connection.close()


def reconnect(node: BrokerProcess, *clients: GroupClient) -> None:
    for client in clients:
        client.connection.close()
        client.connection = Connection(node.bootstrap_servers)


@pytest.mark.chaos
def test_members_of_a_killed_broker_go_on_without_a_rebalance(new_oncelog):
    node = new_oncelog()
    coordinated(node)
    one, two = GroupClient(node, GROUP), GroupClient(node, GROUP, "i")
    stable(one, two)
    for stop in (node.kill, node.stop):
        stop()
        node.start()
        reconnect(node, one, two)
        assert one.heartbeat() is two.heartbeat() is ErrorCode.none
        assert (one.sync().assignment, two.sync().assignment) == (b"0", b"1")
    three = GroupClient(node, GROUP)
    three.enter()
    one.wait_for_members(3)
    one.send_join()
    two.send_join()
    settle(one, two, three)
    assert one.generation == 3
    for client in (one, two, three):
        client.connection.close()


@pytest.mark.jvm
@pytest.mark.slow
def test_dump_log_shows_what_the_group_agreed_on_and_that_it_was_left(new_oncelog):
    node = new_oncelog()
    coordinated(node)
    one, two = GroupClient(node, GROUP), GroupClient(node, GROUP, "i")
    stable(one, two)
    one.leave((one.member_id, None), (two.member_id, "i"))
    one.ask("delete_groups", 2, groups_names=[GROUP])
    node.stop()
    files = [
        path for path in sorted(Path(node.data_directory).glob("__consumer_offsets-*/*.log")) if path.stat().st_size
    ]
    printed = dump(files, "--offsets-decoder")
    assert "isvalid: false" not in printed
    found = re.findall(r" key: (\{.*?\}) payload: (\{.*\}|<DELETE>)$", printed, re.MULTILINE)
    assert {key for key, _ in found} == {json.dumps({"type": "2", "data": {"group": GROUP}}, separators=(",", ":"))}
    values = [json.loads(value)["data"] for _, value in found if value != "<DELETE>"]
    assert found[-1][1] == "<DELETE>"
    assert [(value["generation"], len(value["members"])) for value in values] == [(0, 0), (1, 1), (2, 2), (3, 0)]
    assert {member["groupInstanceId"]: member["memberId"] for member in values[2]["members"]} == {
        None: one.member_id,
        "i": two.member_id,
    }
    assert (values[2]["protocolType"], values[2]["protocol"], values[2]["leader"]) == (
        "consumer",
        "range",
        one.member_id,
    )
    assert (values[3]["protocolType"], values[3]["protocol"], values[3]["leader"]) == ("consumer", None, None)
