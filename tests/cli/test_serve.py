"""`oncelog serve` as a process."""

from __future__ import annotations

import signal

import pytest

from oncelog.client import Client, NewTopic
from tests.support.processes import free_port


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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
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
        (["--set", "no.such=1"], "no.such is no broker setting"),
        (["--set", "num.partitions=many"], "num.partitions=many is not a whole number"),
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
