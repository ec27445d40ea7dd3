"""`oncelog cluster convert`: what it says when it does nothing. tests/cluster/processes/ has what it does."""

from __future__ import annotations

import pytest

from harness.processes import free_port
from oncelog.testing import broker

ZOOKEEPER = ("--set", "zookeeper.connect=127.0.0.1:1")
FIRST = ("--set", "broker.id=1")


def refused(cli, directory, *arguments: str) -> tuple[int, str]:
    ended = cli("cluster", "convert", "--data-dir", directory, *arguments)
    return ended.status, ended.sentence


@pytest.fixture
def alone(tmp_path):
    """The directory of a broker that was alone, and has stopped."""
    with broker(data_dir=str(tmp_path)):
        pass
    return tmp_path


def test_wrong_use_is_said_in_one_sentence(cli, alone):
    nowhere = alone / "nowhere"
    assert refused(cli, nowhere, *ZOOKEEPER, *FIRST) == (
        2,
        f"there is no directory {nowhere}: name the data directory of the broker",
    )
    assert cli("cluster", "convert").sentence == "which directory? say it with --data-dir"
    assert refused(cli, alone, *FIRST) == (
        2,
        "zookeeper.connect is missing: it says where the cluster is to keep its metadata",
    )
    assert refused(cli, alone, *ZOOKEEPER) == (
        2,
        "zookeeper.connect is not allowed without broker.id: each broker of a cluster has its own",
    )
    assert refused(cli, alone, "--from", "kafka", "--to", "kafka") == (2, "--from kafka --to kafka changes nothing")


def test_directory_that_is_not_fit_is_said_in_one_sentence(cli, alone, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    assert refused(cli, empty, *ZOOKEEPER, *FIRST) == (
        5,
        f"{empty} is not the data directory of a broker: name the one that is to be a member",
    )
    for arguments in (["--from", "kafka"], ["--to", "kafka"]):
        sentence = f"{empty} is not the log directory of a broker: it has no meta.properties"
        assert refused(cli, empty, *arguments) == (5, sentence)
    assert refused(cli, alone, *ZOOKEEPER, "--set", "broker.id=7") == (
        5,
        f"{alone} is that of broker 1, which keeps its number in the cluster: give broker.id=1 instead of 7",
    )
    with broker(data_dir=str(alone)):
        for arguments in ([*ZOOKEEPER, *FIRST], ["--from", "kafka"], ["--to", "kafka"]):
            status, sentence = refused(cli, alone, *arguments)
            assert status == 5
            assert "is in use by another process" in sentence


def test_zookeeper_that_cannot_be_reached_is_said_in_one_sentence(cli, alone):
    where = f"127.0.0.1:{free_port()}"
    patience = ("--set", "zookeeper.connection.timeout.ms=300")
    status, sentence = refused(cli, alone, "--set", f"zookeeper.connect={where}", *FIRST, *patience)
    assert status == 3
    assert sentence.startswith(f"no ZooKeeper server of {where} gave a session in 300 ms")
    with broker(data_dir=str(alone)):
        pass
