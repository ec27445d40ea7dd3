"""Users of SCRAM in ZooKeeper, written and told by our brokers and by Apache Kafka's: the answers and the bytes are the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from kazoo.client import KazooClient

from harness.cluster import Cluster
from harness.kafka_tools import KafkaTools, ToolProcess
from harness.names import unique
from harness.wire import Connection

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.drawn(3, together=True)]
SHA_256, SHA_512 = 1, 2
SALT = b"salt"
DONE = ("none", "")
EMPTY = ("unacceptable_credential", "Username must not be empty")
UNKNOWN = ("unsupported_sasl_mechanism", "Unknown SCRAM mechanism")
TOO_FEW, TOO_MANY = (("unacceptable_credential", f"Too {how} iterations") for how in ("few", "many"))
TWICE = ("duplicate_resource", "A user credential cannot be altered twice in the same request")
NOT_THERE = ("resource_not_found", "Attempt to delete a user credential that does not exist")
STORED = (
    "salt=c2FsdA==,stored_key=M6gEs77KaKI/RKU8+SLWUpenplhSaXNgAVnjlXP8RBc=,"
    "server_key=2DZQqVy2vnonAxkPUYZed+C6dXmY6Ypqsy6QBqo4ZD0=,iterations=4096"
)
"""As Apache Kafka 3.9.1 has written it for the password "pw"."""


@pytest.fixture
def connection(two_brokers: Cluster) -> Iterator[Connection]:
    with closing(Connection(two_brokers.controller.bootstrap_servers)) as connection:
        yield connection


@pytest.fixture
def name() -> str:
    return unique("user")


def put(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> dict[str, Any]:
    salted = hashlib.pbkdf2_hmac("sha256", b"pw", SALT, max(iterations, 1))
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": SALT,
        "salted_password": salted,
    }


def gone(name: str, mechanism: int = SHA_256) -> dict[str, Any]:
    return {"name": name, "mechanism": mechanism}


def alter(connection: Connection, *changes: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    answer = connection.ask(
        "alter_user_scram_credentials",
        0,
        upsertions=[one for one in changes if "salt" in one],
        deletions=[one for one in changes if "salt" not in one],
    )
    return {one.user: (one.error_code.name, one.error_message) for one in answer.results}


def describe(connection: Connection, *names: str) -> dict[str, tuple[str, str, list[tuple[int, int]]]]:
    users = [{"name": name} for name in names] if names else None
    answer = connection.ask("describe_user_scram_credentials", 0, users=users)
    assert (answer.error_code.name, answer.error_message) == ("none", "")
    return {
        one.user: (
            one.error_code.name,
            one.error_message,
            [(info.mechanism, info.iterations) for info in one.credential_infos],
        )
        for one in answer.results
    }


def test_user_is_made_described_changed_and_gone(connection: Connection, name: str) -> None:
    odd = f"{name} b=c/d%ü"
    assert alter(connection, put(name), put(odd, SHA_512)) == {name: DONE, odd: DONE}
    assert alter(connection, put(name, SHA_512, 16_384)) == {name: DONE}
    found = describe(connection)
    assert found[name] == (*DONE, [(SHA_256, 4096), (SHA_512, 16_384)])
    assert found[odd] == (*DONE, [(SHA_512, 4096)])
    assert alter(connection, gone(name, SHA_512), put(name, SHA_256, 5000)) == {name: DONE}
    assert describe(connection, name) == {name: (*DONE, [(SHA_256, 5000)])}
    assert alter(connection, gone(name)) == {name: DONE}
    not_there = f"Attempt to describe a user credential that does not exist: {name}"
    assert describe(connection, name) == {name: ("resource_not_found", not_there, [])}
    assert name not in describe(connection)


def test_what_is_written_is_the_same_for_every_kind_of_broker(
    two_brokers: Cluster, connection: Connection, name: str
) -> None:
    assert alter(connection, put(name)) == {name: DONE}
    zookeeper = KazooClient(two_brokers.zookeeper_connect)
    zookeeper.start()
    try:
        data, _ = zookeeper.get(f"/config/users/{name}")
        newest = max(zookeeper.get_children("/config/changes"))
        change, _ = zookeeper.get(f"/config/changes/{newest}")
    finally:
        zookeeper.stop()
    assert data.decode() == json.dumps({"version": 1, "config": {"SCRAM-SHA-256": STORED}}, separators=(",", ":"))
    assert change.decode() == json.dumps({"version": 2, "entity_path": f"users/{name}"}, separators=(",", ":"))


def test_what_cannot_be_is_refused_as_a_whole(connection: Connection, name: str) -> None:
    assert alter(connection, put("")) == {"": EMPTY}
    assert alter(connection, gone("")) == {"": EMPTY}
    for mechanism in (0, 3, -1):
        assert alter(connection, put(name, mechanism)) == {name: UNKNOWN}
        assert alter(connection, gone(name, mechanism)) == {name: UNKNOWN}
    for iterations, said in ((4095, TOO_FEW), (0, TOO_FEW), (-5, TOO_FEW), (16_385, TOO_MANY)):
        assert alter(connection, put(name, SHA_512, iterations)) == {name: said}
    assert alter(connection, put(name), put(name)) == {name: TWICE}
    assert alter(connection, put(name), gone(name)) == {name: TWICE}
    assert alter(connection, put(name), put(name, 0)) == {name: UNKNOWN}
    assert alter(connection, put(name), gone(name, SHA_512)) == {name: NOT_THERE}
    assert alter(connection, gone(name)) == {name: NOT_THERE}
    assert describe(connection, name)[name][0] == "resource_not_found"
    other = f"{name}-other"
    assert alter(connection, put(name), put(""), put(other)) == {name: DONE, "": EMPTY, other: DONE}
    assert alter(connection) == {}


def test_what_cannot_be_described_is_told_for_each_user(connection: Connection, name: str) -> None:
    assert alter(connection, put(name)) == {name: DONE}
    found = describe(connection, name, name, "", f"{name}-other")
    twice = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    assert found[name] == ("duplicate_resource", twice, [])
    assert found[""] == ("resource_not_found", "Username must not be empty", [])
    assert found[f"{name}-other"][0] == "resource_not_found"


def test_only_the_controller_alters_and_every_broker_describes(
    two_brokers: Cluster, connection: Connection, name: str
) -> None:
    assert alter(connection, put(name)) == {name: DONE}
    controller = two_brokers.controller
    other = next(one for one in two_brokers.brokers.values() if one is not controller)
    with closing(Connection(other.bootstrap_servers)) as its:
        assert alter(its, put(name), gone("gone")) == {name: ("not_controller", None), "gone": ("not_controller", None)}
        assert describe(its, name) == {name: (*DONE, [(SHA_256, 4096)])}


def test_kafkas_tool_makes_users(two_brokers: Cluster, name: str) -> None:
    process = ToolProcess()
    try:
        tools = KafkaTools(process, two_brokers.bootstrap_servers)
        where = ("--entity-type", "users", "--entity-name", name)
        made = tools(
            "kafka-configs", "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]", *where
        )
        assert made.lines[-1] == f"Completed updating config for user {name}.", made.text
        with closing(Connection(two_brokers.controller.bootstrap_servers)) as connection:
            assert describe(connection, name) == {name: (*DONE, [(SHA_256, 8192)])}
        tools("kafka-configs", "--alter", "--delete-config", "SCRAM-SHA-256", *where)
        with closing(Connection(two_brokers.controller.bootstrap_servers)) as connection:
            assert describe(connection, name)[name][0] == "resource_not_found"
    finally:
        process.close()
