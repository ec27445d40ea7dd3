"""One process owns a data directory: taking it, leaving it clean, and coming back after it was not."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from unittest.mock import patch

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from harness.oncelog_cluster import OncelogMember
from harness.oncelog_process import OncelogNode
from harness.processes import free_port
from harness.shared_producer import Cluster
from harness.waiting import until
from harness.wire import Connection
from oncelog import Broker
from oncelog.broker import BrokerCore
from oncelog.broker.slices import Turn
from oncelog.environment import DirectoryInUseError, DiskError
from oncelog.server.disk import RealDisk
from oncelog.server.main import EXIT_FAILED
from oncelog.server.metrics import MetricsListener
from oncelog.testing import broker


@pytest.fixture
def node(tmp_path):
    made = OncelogNode(tmp_path)
    made.start()
    yield made
    made.kill()


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = OncelogNode.program()
    return subprocess.run([program, "serve", *arguments], capture_output=True, text=True, timeout=60, check=False)


def produce(node, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap_servers})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def values(node, topic: str) -> list[str]:
    return [value for _, _, value in Cluster(node).read(topic, 1)]


def test_second_process_is_refused_with_one_sentence_and_the_first_goes_on(node):
    second = serve("--listen", "127.0.0.1:0", "--data-dir", str(node.data_directory))
    assert second.returncode == EXIT_FAILED
    assert "in use by another process" in second.stderr
    assert len(second.stderr.splitlines()) == 1
    Connection(node.bootstrap_servers).ask("api_versions", 0)


def test_second_broker_of_the_same_process_is_refused(tmp_path):
    with broker(str(tmp_path)), pytest.raises(DirectoryInUseError), broker(str(tmp_path)):
        pass


def test_address_that_is_taken_is_one_sentence_and_the_directory_is_not_touched(tmp_path):
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        host, port = taken.getsockname()
        refused = serve("--listen", f"{host}:{port}", "--data-dir", str(tmp_path / "data"))
    assert refused.returncode == EXIT_FAILED
    assert "cannot listen on" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_signal_is_a_clean_stop_and_the_next_start_reads_nothing_again(node, stop):
    topic = Cluster(node).create_topic(1)
    produce(node, topic, ["a", "b"])
    node.send_signal(stop)
    assert node.wait() == 0
    assert (node.data_directory / ".kafka_cleanshutdown").exists()
    node.start()
    assert not (node.data_directory / ".kafka_cleanshutdown").exists(), "it says what the last stop was, once"
    assert "after a crash" not in node.tail()
    assert values(node, topic) == ["a", "b"]


def test_kill_is_recovered_from_and_what_was_acknowledged_is_there(node):
    topic = Cluster(node).create_topic(1)
    produce(node, topic, ["a", "b"])
    node.kill()
    assert not (node.data_directory / ".kafka_cleanshutdown").exists()
    node.start()
    assert "after a crash" in node.tail()
    assert values(node, topic) == ["a", "b"]


def test_stop_that_is_cancelled_has_stopped_nevertheless(tmp_path):
    async def run() -> None:
        first = Broker(data_dir=str(tmp_path))
        await first.start()
        stopping = asyncio.ensure_future(first.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        async with Broker(data_dir=str(tmp_path), listen=first.bootstrap_servers) as second:
            assert second.start_report.was_clean

    asyncio.run(run())


@pytest.mark.parametrize("ensemble", ["nowhere:port", ","])
def test_start_that_has_no_ensemble_to_go_to_leaves_the_address_and_no_directory(tmp_path, monkeypatch, ensemble):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    listen = f"127.0.0.1:{free_port()}"
    with (
        pytest.raises(ValueError, match=r"zookeeper\.connect"),
        broker(listen=listen, broker_id=1, zookeeper_connect=ensemble),
    ):
        pytest.fail("it is in no cluster")
    assert list(tmp_path.iterdir()) == []
    with broker(listen=listen):
        pass


def test_stop_does_not_wait_for_requests_that_wait(node):
    """A fetch that may wait for a minute, a client that says nothing, and half a request."""
    idle, half = Connection(node.bootstrap_servers), Connection(node.bootstrap_servers)
    half.socket.sendall(b"\0\0\1\0\0\1")
    topic = Cluster(node).create_topic(1)
    consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "g", "fetch.wait.max.ms": 60_000})
    consumer.assign([TopicPartition(topic, 0, 0)])
    consumer.poll(0.5)
    node.stop(timeout_seconds=10)
    assert (node.data_directory / ".kafka_cleanshutdown").exists()
    idle.close()


def test_clients_are_hung_up_on_before_a_stop_keeps_everybody_waiting_for_the_disk(monkeypatch):
    received: list[bytes] = []
    stop = BrokerCore.stop

    def receive_and_stop(core: BrokerCore) -> None:
        received.append(connection.socket.recv(1))
        stop(core)

    monkeypatch.setattr(BrokerCore, "stop", receive_and_stop)
    with broker() as running:
        connection = Connection(running.bootstrap_servers, timeout_seconds=10)
        connection.ask("api_versions", 0)
    assert received == [b""]
    connection.close()


def described(bootstrap_servers: str, names: list[str]) -> dict[str, tuple[str, int]]:
    """Broker settings as DescribeConfigs has them: value and source."""
    resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": names}
    fields = {"resources": [resource], "include_synonyms": False, "include_documentation": False}
    answer = Connection(bootstrap_servers).ask("describe_configs", 4, **fields)
    return {config.name: (config.value, config.config_source) for config in answer.results[0].configs}


def test_address_and_directory_of_the_command_line_are_told_as_if_the_settings_had_named_them(node):
    """`listeners` and `log.dirs` tell where the broker is: STATIC_BROKER_CONFIG (4) in Kafka, which always has a file."""
    told = described(node.bootstrap_servers, ["listeners", "log.dirs"])
    assert told == {
        "listeners": (f"PLAINTEXT://{node.bootstrap_servers}", 4),
        "log.dirs": (str(node.data_directory), 4),
    }


def test_port_that_was_free_and_temporary_directory_are_told(tmp_path):
    with broker(listeners="PLAINTEXT://127.0.0.1:9") as started:
        told = described(started.bootstrap_servers, ["listeners", "log.dirs"])
    assert told["listeners"] == (f"PLAINTEXT://{started.bootstrap_servers}", 4), "not the port that the setting names"
    assert "oncelog-" in told["log.dirs"][0]


def test_same_directory_again_is_the_same_cluster(node):
    before = Connection(node.bootstrap_servers).ask("describe_cluster", 0, include_cluster_authorized_operations=False)
    node.stop()
    node.start()
    after = Connection(node.bootstrap_servers).ask("describe_cluster", 0, include_cluster_authorized_operations=False)
    assert after.cluster_id == before.cluster_id != ""


def test_stop_in_the_middle_of_a_checkpoint_is_a_clean_one(tmp_path):
    """Both replace the same files: the last one has to be the last."""

    replaced: list[str] = []

    def slowly(source: str, target: str) -> None:
        replaced.append(threading.current_thread().name)
        if is_beside():
            time.sleep(0.1)
        try:
            os.rename(source, target)
        except OSError as error:
            replaced.append(str(error))
            raise

    def is_beside() -> bool:
        return bool(replaced) and replaced[-1].startswith("oncelog-sync")

    settings = {"log_flush_offset_checkpoint_interval_ms": "50"}
    with patch("oncelog.server.disk.os.replace", slowly), broker(str(tmp_path), **settings) as served:
        produce(served, "kept", ["a"])
        until(is_beside)
    assert replaced[-1] == "oncelog-broker"
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert "kept 0 1" in (tmp_path / "recovery-point-offset-checkpoint").read_text()


def test_start_that_is_cancelled_leaves_the_directory_and_the_address(node):
    produce(node, "kept", ["a"])
    node.kill()

    async def begin_and_cancel() -> None:
        begun = Broker(data_dir=str(node.data_directory), listen=node.bootstrap_servers)
        starting = asyncio.ensure_future(begun.start())
        await asyncio.sleep(0)
        assert not starting.done()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    with patch.object(Turn, "is_over", True):
        asyncio.run(begin_and_cancel())
    node.start()
    assert values(node, "kept") == ["a"]


def test_start_that_is_cancelled_when_all_is_loaded_leaves_everything(tmp_path, zookeeper):
    settings = {"broker.id": "1", "zookeeper.connect": zookeeper, "prometheus.listener": f"127.0.0.1:{free_port()}"}
    begun = Broker(data_dir=str(tmp_path), listen=f"127.0.0.1:{free_port()}", settings=settings)
    listen = MetricsListener.start

    async def begin_and_cancel() -> None:
        async def listen_and_be_cancelled(metrics: MetricsListener) -> None:
            await listen(metrics)
            starting.cancel()
            await asyncio.sleep(0)

        starting = asyncio.ensure_future(begun.start())
        with (
            patch.object(MetricsListener, "start", listen_and_be_cancelled),
            pytest.raises(asyncio.CancelledError),
        ):
            await starting
        # In the same process: no end of a process gives back what the first has.
        async with Broker(data_dir=str(tmp_path), listen=begun.bootstrap_servers, settings=settings) as second:
            assert second.start_report.was_clean

    asyncio.run(begin_and_cancel())


def test_disk_that_fails_while_others_have_their_turn_ends_the_start(node):
    produce(node, "kept", ["a"])
    node.kill()

    async def begin() -> None:
        async with Broker(data_dir=str(node.data_directory), listen=node.bootstrap_servers):
            pass

    with (
        patch.object(Turn, "is_over", True),
        patch.object(RealDisk, "sync_all", side_effect=DiskError("it is broken")),
        pytest.raises(DiskError, match="it is broken"),
    ):
        asyncio.run(begin())
    node.start()
    assert values(node, "kept") == ["a"]


def test_start_that_waits_for_others_ends_when_it_is_told_to(tmp_path):
    member = OncelogMember(tmp_path, "127.0.0.1:1", 1, zookeeper_connection_timeout_ms="60000")
    member.launch()
    until(lambda: is_open(member.port))
    member.stop(10)
    assert member.wait() == 0
    assert member.tail() == ""


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


FAILS_AT_ITS_STOP = """
import sys
from unittest.mock import patch
from oncelog.broker import BrokerCore
from oncelog.environment import DiskError
from oncelog.server.main import serve

hand_over = BrokerCore.hand_over


def fail(core):
    core.fail(DiskError("/data/.lock was removed", "/data/.lock"))
    return hand_over(core)


with patch.object(BrokerCore, "hand_over", fail):
    sys.exit(serve("127.0.0.1:0", sys.argv[1], {}))
"""


def test_disk_that_fails_when_the_broker_stops_is_told_and_the_stop_is_no_clean_one(tmp_path):
    program = subprocess.Popen(
        [sys.executable, "-c", FAILS_AT_ITS_STOP, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "is ready" in program.stdout.readline()
    program.send_signal(signal.SIGTERM)
    _, errors = program.communicate(timeout=60)
    assert (program.returncode, errors) == (EXIT_FAILED, "/data/.lock was removed\n")
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_disk_that_fails_when_a_broker_in_a_test_stops_is_told():
    hand_over = BrokerCore.hand_over

    def fail(core):
        core.fail(DiskError("the disk is gone", "/data"))
        return hand_over(core)

    with pytest.raises(DiskError, match="the disk is gone"), patch.object(BrokerCore, "hand_over", fail), broker():
        pass
