"""`oncelog cluster zookeeper`: what is in ZooKeeper, readable, and nothing that a password could be guessed from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from oncelog.cli.cluster.znodes import readable
from oncelog.cli.exits import ExitStatus
from oncelog.cli.tables import HIDDEN

SCRAM = "salt=c2FsdA==,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=4096"
SECRETS = ("c2FsdA==", "c3RvcmVk", "c2VydmVy", "hunter2")
TOPIC = {"version": 3, "topic_id": "x", "partitions": {"0": [1, 2, 3], "1": [2, 3, 1]}, "adding_replicas": {}}


@pytest.fixture
def znodes(zookeeper: str) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def show(cli, zookeeper: str):
    return lambda *arguments: cli("cluster", "zookeeper", *arguments, "--zookeeper", zookeeper)


@pytest.mark.jvm
def test_znode_is_shown_with_its_versions_times_and_children(show, znodes: KazooClient) -> None:
    znodes.create("/brokers/topics/orders", json.dumps(TOPIC).encode(), makepath=True)
    znodes.create("/brokers/topics/orders/partitions")
    znodes.set("/brokers/topics/orders", json.dumps(TOPIC).encode())
    znodes.create("/brokers/topics/orders/watcher", b"plain \x1b[2J text", ephemeral=True)
    stat = znodes.get("/brokers/topics/orders")[1]
    found = json.loads(show("/brokers/topics/orders", "--json").output)
    assert found.pop("data") == TOPIC
    assert found.pop("children") == ["partitions", "watcher"]
    for name, time_ms in (("created", stat.ctime), ("modified", stat.mtime)):
        shown = datetime.fromisoformat(found.pop(name))
        assert abs(shown - datetime.fromtimestamp(time_ms / 1000, UTC)) < timedelta(milliseconds=1)
    assert found == {
        "path": "/brokers/topics/orders",
        "version": 1,
        "bytes": stat.dataLength,
        "czxid": hex(stat.czxid),
        "mzxid": hex(stat.mzxid),
        "session": None,
    }
    shown = show("/brokers/topics/orders/")
    assert shown.lines[0] == "/brokers/topics/orders"
    assert shown.lines[1].split() == [
        "VERSION",
        "BYTES",
        "CHILDREN",
        "CREATED",
        "CZXID",
        "MODIFIED",
        "MZXID",
        "SESSION",
    ]
    assert shown.lines[2].split()[:3] == ["1", str(stat.dataLength), "2"]
    assert shown.lines[4:12] == [
        "{",
        '  "version": 3,',
        '  "topic_id": "x",',
        '  "partitions": {',
        '    "0": [1, 2, 3],',
        '    "1": [2, 3, 1]',
        "  },",
        '  "adding_replicas": {}',
    ]
    session = f"{znodes.client_id[0]:#x}"
    assert [line.split()[0] for line in shown.lines[14:]] == ["CHILD", "partitions", "watcher"]
    assert shown.lines[-1].endswith(session)
    text = show("/brokers/topics/orders/watcher")
    assert text.lines[-1] == "plain \\x1b[2J text"


@pytest.mark.jvm
def test_everything_below_a_znode_is_shown_once(show, znodes: KazooClient) -> None:
    for path, data in (("/a", b""), ("/a/b", b"1"), ("/a/b/c", b"\xff"), ("/a-b", b"{}")):
        znodes.create(path, data)
    found = json.loads(show("--recursive", "--json").output)
    assert [(one["path"], one["data"], one["children"]) for one in found] == [
        ("/", None, ["a", "a-b"]),
        ("/a", None, ["b"]),
        ("/a/b", 1, ["c"]),
        ("/a/b/c", {"base64": "/w=="}, []),
        ("/a-b", {}, []),
    ]
    titles = [line for line in show("-r").lines if line.startswith("/")]
    assert titles == [one["path"] for one in found]
    assert [one["path"] for one in json.loads(show("/a/b", "-r", "--json").output)] == ["/a/b", "/a/b/c"]


@pytest.mark.jvm
def test_secrets_of_users_are_not_shown_whatever_is_asked_for(cli, show, zookeeper: str, znodes: KazooClient) -> None:
    user = ("cluster", "user", "alice", "--zookeeper", zookeeper)
    assert cli(*user, stdin=b"hunter2\n").status == ExitStatus.OK
    stored = znodes.get("/config/users/alice")[0].decode()
    keys = [part.partition("=")[2] for part in json.loads(stored)["config"]["SCRAM-SHA-512"].split(",")]
    znodes.create("/config/users/bob", SCRAM.encode())
    for arguments in (("/config/users/alice",), ("/config/users/bob",), ("/config/users",), ("-r",), ("/config", "-r")):
        for form in ((), ("--json",)):
            shown = show(*arguments, *form)
            assert shown.status == ExitStatus.OK
            assert not [secret for secret in (*keys[:3], *SECRETS) if secret in shown.output]
    assert "SCRAM-SHA-512" in show("/config/users/alice").output


@pytest.mark.parametrize("path", ["/config/users/alice", "/deep/chroot/config/users/alice/clients/c", "/anything"])
@pytest.mark.parametrize(
    "data",
    [
        json.dumps({"version": 1, "config": {"SCRAM-SHA-256": SCRAM, "producer_byte_rate": "5"}}),
        json.dumps({"version": 1, "config": {"scram-sha-512": [SCRAM], "x": {"ssl.key.password": "hunter2"}}}),
        json.dumps({"config": {"listener.name.a.ssl.keystore.key": "hunter2", "note": f"it has {SCRAM}"}}),
        json.dumps({"config": {"listener.name.a.scram-sha-512.sasl.jaas.config": 'x password="hunter2";'}}),
        json.dumps({"stored_key=": {"deep": [[f'"{SCRAM}"']]}}),
        SCRAM,
        f"broken {{ {SCRAM}",
        json.dumps(SCRAM),
    ],
)
def test_secret_is_hidden_wherever_it_is(path: str, data: str) -> None:
    shown = json.dumps(readable(path, data.encode()))
    assert HIDDEN in shown
    assert not [secret for secret in SECRETS if secret in shown]


@pytest.mark.parametrize("data", [b"\xff" + SCRAM.encode(), b"[" * 100_000, b"words", b"5", b"null "])
def test_what_is_no_configuration_of_a_user_is_hidden_as_a_whole(data: bytes) -> None:
    assert readable("/config/users/alice", data) in (HIDDEN, None)


def test_what_is_no_path_is_refused(cli) -> None:
    for path in ("brokers", "", "//", "/a//b"):
        ended = cli("cluster", "zookeeper", path, "--zookeeper", "127.0.0.1:1")
        assert ended.status == ExitStatus.USAGE
        assert "/brokers/ids is one" in ended.errors


@pytest.mark.jvm
def test_znode_that_is_not_there_or_not_to_be_read_is_said_in_a_sentence(show, znodes: KazooClient) -> None:
    missing = show("/nothing")
    assert (missing.status, missing.errors.count("\n")) == (ExitStatus.REFUSED, 1)
    assert "there is no znode /nothing" in missing.errors
    znodes.create("/locked", b"x", acl=[make_digest_acl("owner", "pw", all=True)])
    locked = show("/locked")
    assert (locked.status, locked.output) == (ExitStatus.REFUSED, "")
    assert "without a log-in" in locked.errors
