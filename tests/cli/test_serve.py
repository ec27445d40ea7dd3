"""`oncelog serve` as a process."""

from __future__ import annotations

import os
import signal

import pytest

from harness.processes import free_port
from oncelog.client import Client, NewTopic


def ready_address(process) -> str:
    """Wait for the line that says the broker is ready; return the address in it."""
    line = process.stdout.readline()
    assert line.startswith("oncelog is ready on "), process.stderr.read()
    return line.removeprefix("oncelog is ready on ").partition(",")[0]


def test_one_line_says_when_the_broker_answers(process, tmp_path):
    directory = tmp_path / "data"
    served = process("serve", "--listen", "127.0.0.1:0", "--data-dir", directory)
    line = served.stdout.readline()
    address = line.removeprefix("oncelog is ready on ").partition(",")[0]
    assert line == f"oncelog is ready on {address}, data in {directory}\n"
    with Client(address) as client:
        assert len(client.describe_cluster().nodes) == 1


def test_broker_loads_neither_a_terminal_toolkit_nor_hypothesis(process, tmp_path):
    verbose = os.environ | {"PYTHONPROFILEIMPORTTIME": "1"}
    served = process("serve", "--listen", "127.0.0.1:0", "--data-dir", tmp_path / "data", env=verbose)
    ready_address(served)
    served.terminate()
    _, times = served.communicate(timeout=30)
    loaded = {line.rpartition("|")[2].strip() for line in times.splitlines()}
    assert "kio.static.primitive" in loaded
    assert not loaded & {"hypothesis", "rich", "typer"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_a_clean_stop(process, tmp_path, number):
    directory = tmp_path / "data"
    served = process("serve", "--listen", "127.0.0.1:0", "--data-dir", directory)
    with Client(ready_address(served)) as client:
        client.create_topics([NewTopic("kept")])
    served.send_signal(number)
    assert served.communicate(timeout=30) == ("", "")
    assert served.returncode == 0
    assert (directory / ".kafka_cleanshutdown").is_file()
    again = process("serve", "--listen", "127.0.0.1:0", "--data-dir", directory)
    with Client(ready_address(again)) as client:
        assert "kept" in client.metadata()


def test_broker_that_nohup_started_outlives_its_terminal(process):
    served = process(
        *("serve", "--listen", "127.0.0.1:0"), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )
    with Client(ready_address(served)) as client:
        served.send_signal(signal.SIGHUP)
        assert len(client.describe_cluster().nodes) == 1
    served.terminate()
    assert served.wait(30) == 0


@pytest.mark.parametrize("descriptor", [0, 2])
def test_stream_that_is_closed_has_no_file_and_no_connection_in_its_place(process, descriptor):
    served = process(
        *("serve", "--listen", "127.0.0.1:0"), stdin=None, stderr=None, preexec_fn=lambda: os.close(descriptor)
    )
    with Client(ready_address(served)) as client:
        client.create_topics([NewTopic("kept")])
        assert os.readlink(f"/proc/{served.pid}/fd/{descriptor}") == os.devnull
    served.terminate()
    assert served.wait(30) == 0


def test_output_that_takes_nothing_ends_the_broker_cleanly(process, tmp_path):
    with open("/dev/full", "w") as full:
        served = process("serve", "--listen", "127.0.0.1:0", "--data-dir", tmp_path / "data", stdout=full)
        assert served.wait(30) == 5
    assert served.stderr.read() == "oncelog: cannot write to standard output: No space left on device\n"
    assert (tmp_path / "data" / ".kafka_cleanshutdown").is_file()


def test_second_process_on_a_data_directory_is_refused(process, finish, tmp_path):
    directory = tmp_path / "data"
    served = process("serve", "--listen", "127.0.0.1:0", "--data-dir", directory)
    with Client(ready_address(served)) as client:
        second = finish("serve", "--listen", "127.0.0.1:0", "--data-dir", directory)
        assert second.status == 5
        assert second.sentence == (
            f"the data directory {directory} is in use by another process; stop it, or choose another directory"
        )
        assert len(client.describe_cluster().nodes) == 1


def test_port_in_use_is_named(finish, oncelog_broker, tmp_path):
    ended = finish("serve", "--listen", oncelog_broker.bootstrap_servers, "--data-dir", tmp_path / "data")
    assert ended.status == 5
    assert ended.sentence == f"cannot listen on {oncelog_broker.bootstrap_servers}: Address already in use"


def test_without_a_data_directory_nothing_is_left(process, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    served = process("serve", "--listen", "127.0.0.1:0", cwd=tmp_path, env={"TMPDIR": str(temporary)})
    ready_address(served)
    assert list(temporary.iterdir())
    served.terminate()
    assert served.wait(30) == 0
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--listen", "nonsense"], "'nonsense' is not an address: give HOST:PORT, for example 127.0.0.1:9092"),
        (["--listen", "h:\u00b2"], "'h:\u00b2' is not an address: give HOST:PORT, for example 127.0.0.1:9092"),
        (["--set", "no.such=1"], "no.such is no broker setting"),
        (
            ["--set", "num.partitions=many"],
            "Invalid value many for configuration num.partitions: Not a number of type INT",
        ),
    ],
)
def test_wrong_use_is_said_in_one_sentence(finish, arguments, sentence):
    ended = finish("serve", *arguments)
    assert ended.status == 2
    assert ended.sentence == sentence


def test_a_setting_under_kafkas_name_is_taken(process):
    served = process("serve", "--listen", f"127.0.0.1:{free_port()}", "--set", "num.partitions=3")
    with Client(ready_address(served)) as client:
        client.create_topics([NewTopic("defaulted", -1)])
        assert len(client.metadata(["defaulted"])["defaulted"].partitions) == 3


def test_properties_file_of_kafka_is_taken(process, tmp_path):
    """Kafka's own file for one node, with a name that is misspelt and settings that mean nothing here."""
    port = free_port()
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\n"
        "node.id=3\n"
        "controller.quorum.bootstrap.servers=localhost:9093\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://:9093\n"
        "inter.broker.listener.name=PLAINTEXT\n"
        f"advertised.listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "num.network.threads=3\n"
        f"log.dirs={tmp_path}/log,{tmp_path}/more\n"
        "num.partition=7\n"
        "num.partitions=4\n"
        "log.retention.hours=5\n"
    )
    served = process("serve", "--config", file, "--set", "num.partitions=5")
    assert ready_address(served) == f"127.0.0.1:{port}"
    with Client(f"127.0.0.1:{port}") as client:
        (node,) = client.describe_cluster().nodes
        assert (node.node_id, node.host, node.port) == (3, "localhost", port)
        client.create_topics([NewTopic("t")])
        assert len(client.metadata(["t"])["t"].partitions) == 5
        settings = {entry.name: entry.value for entry in client.describe_configs(topics=["t"])["t"]}
        assert settings["retention.ms"] == "18000000"
    assert (tmp_path / "log" / "t-4").is_dir()
    assert (tmp_path / "more" / "t-3").is_dir()
    served.send_signal(signal.SIGTERM)
    _, said = served.communicate(timeout=30)
    lines = [line.removeprefix(f"oncelog: {file}: ") for line in said.splitlines()]
    assert lines[0] == "num.partition is left out: num.partition is no broker setting; the nearest is num.partitions"
    assert {line.partition(" ")[0] for line in lines[1:]} == {
        "process.roles",
        "controller.quorum.bootstrap.servers",
        "num.network.threads",
    }


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("num.partitions=0", "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ("listeners=SSL://:1", "the listener SSL has no certificate to show: set ssl.keystore.location"),
    ],
)
def test_wrong_value_in_a_file_is_an_error_with_the_setting(finish, tmp_path, line, what):
    file = tmp_path / "server.properties"
    file.write_text(f"{line}\n")
    ended = finish("serve", "--config", file)
    assert ended.status == 2
    assert what in ended.sentence


def test_file_that_cannot_be_read_is_named(finish, tmp_path):
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    for file, reason in (
        (tmp_path / "none.properties", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (binary, "it is no text in UTF-8"),
    ):
        ended = finish("serve", "--config", file)
        assert (ended.status, ended.sentence) == (2, f"{file}: {reason}")


@pytest.mark.parametrize(
    ("host", "reason"),
    [("nohost.invalid", ""), ("two..dots", ""), ("ü" * 64, "that is no name of a host")],
    ids=["unknown", "no_label", "long_label"],
)
def test_host_that_is_none_is_named(finish, host, reason):
    ended = finish("serve", "--listen", f"{host}:9192")
    assert ended.status == 5
    assert ended.sentence.startswith(f"cannot listen on {host}:9192: {reason}")


@pytest.mark.parametrize("option", ["--data-dir", "--listen", "--config"])
def test_empty_value_does_not_stand_for_the_default(finish, option):
    ended = finish("serve", option, "", timeout=20)
    assert ended.status == 2
    assert f"argument {option}: the value is empty" in ended.errors


@pytest.mark.parametrize("name", ["log.dirs", "log.dir"])
@pytest.mark.parametrize("value", ["", ","])
def test_setting_that_names_no_directory_is_refused(finish, tmp_path, name, value):
    said = (2, f"{name}= is not allowed: name a directory, or leave {name} out")
    ended = finish("serve", "--listen", "127.0.0.1:0", "--set", f"{name}={value}", timeout=20)
    assert (ended.status, ended.sentence) == said
    file = tmp_path / "server.properties"
    file.write_text(f"{name}={value}\n")
    ended = finish("serve", "--listen", "127.0.0.1:0", "--config", file, timeout=20)
    assert (ended.status, ended.sentence) == said
