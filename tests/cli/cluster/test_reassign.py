"""`oncelog cluster reassign`, on three brokers, and what our client has of it."""

from __future__ import annotations

import asyncio
import json

import pytest

from oncelog.client import AsyncClient, BrokerRefused, Client, TopicPartition
from oncelog.testing import cluster

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.drawn(3, together=True)]


@pytest.fixture(scope="module")
def servers():
    with cluster(brokers=3) as running:
        yield running.bootstrap_servers


def make(cli, servers: str, topic: str, replication_factor: int) -> None:
    there = ("--bootstrap-server", servers)
    factor = ("--replication-factor", str(replication_factor))
    assert cli("topics", "create", topic, "--partitions", "3", *factor, *there).status == 0
    assert cli("produce", topic, "-p", "0", *there, stdin=b"one\ntwo\n").status == 0


def replicas(servers: str, topic: str) -> list[list[int]]:
    with Client(servers) as client:
        return [sorted(one.replicas) for one in client.metadata([topic])[topic].partitions]


@pytest.mark.timeout(300)
def test_partitions_go_to_the_brokers_that_are_named_with_what_is_in_them(cli, servers):
    make(cli, servers, "moved", 1)
    there = ("--bootstrap-server", servers)
    for brokers, more, expected in (
        ("3", (), [[3]] * 3),
        ("1,2", ("--replication-factor", "2"), [[1, 2]] * 3),
        ("1,2,3", (), None),
        ("2", ("--replication-factor", "1"), [[2]] * 3),
    ):
        ended = cli("cluster", "reassign", "--brokers", brokers, "--topic", "moved", *more, *there)
        assert ended.status == 0, ended.errors
        found = replicas(servers, "moved")
        assert found == expected or (expected is None and {len(one) for one in found} == {2})
        assert ended.lines[0].split() == ["TOPIC", "PARTITIONS", "BROKERS"]
        assert ended.lines[1].split() == ["moved", "3", brokers]
    again = cli("cluster", "reassign", "--brokers", "2", "--topic", "moved", *there)
    assert again.lines[1].split() == ["moved", "3", "2"]
    assert cli("consume", "moved", "-e", *there).output == "one\ntwo\n"


def test_file_of_kafkas_tool_is_carried_out(cli, servers, tmp_path):
    make(cli, servers, "planned", 1)
    plan = tmp_path / "plan.json"
    wanted = [{"topic": "planned", "partition": index, "replicas": [index + 1]} for index in range(3)]
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    ended = cli("cluster", "reassign", "--reassignment-json-file", plan, "--bootstrap-server", servers)
    assert ended.status == 0, ended.errors
    assert replicas(servers, "planned") == [[1], [2], [3]]


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        ((), 2, "give either --brokers or --reassignment-json-file"),
        (("--brokers", "1,x"), 2, "'1,x' is no list of brokers: give numbers, for example 1,2,3"),
        (("--brokers", "1,9"), 2, "broker 9 is not alive: those that are are [1, 2, 3]"),
    ],
)
def test_wrong_use_is_said_in_one_sentence(cli, servers, arguments, status, sentence):
    ended = cli("cluster", "reassign", *arguments, "--bootstrap-server", servers)
    assert (ended.status, ended.sentence) == (status, sentence)


def test_what_cannot_be_is_said_in_one_sentence(cli, servers, tmp_path):
    make(cli, servers, "three", 3)
    there = ("--bootstrap-server", servers)
    ended = cli("cluster", "reassign", "--brokers", "1,2", "--topic", "three", *there)
    assert ended.status == 2
    assert ended.sentence == (
        "topic three has no room: Replication factor: 3 larger than available brokers: 2. Give --replication-factor"
    )
    plan = tmp_path / "plan.json"
    plan.write_text('{"partitions":[{"topic":"three"}]}')
    ended = cli("cluster", "reassign", "--reassignment-json-file", plan, *there)
    assert ended.status == 2
    assert ended.sentence.startswith(f"{plan} is no plan: it has to be ")
    plan.write_text('{"partitions":[{"topic":"three","partition":0,"replicas":[1,7]}]}')
    ended = cli("cluster", "reassign", "--reassignment-json-file", plan, *there)
    assert ended.status == 4
    assert "reassigning partition three-0" in ended.sentence


def test_client_says_what_is_under_way_and_what_cannot_be_ended(cli, servers):
    make(cli, servers, "idle", 1)
    none = {TopicPartition("idle", 0): None}
    with Client(servers) as client:
        assert client.partition_reassignments() == {}
        with pytest.raises(BrokerRefused, match="NO_REASSIGNMENT_IN_PROGRESS"):
            client.reassign_partitions(none)

    async def ask() -> None:
        async with AsyncClient(servers) as client:
            assert await client.partition_reassignments() == {}
            await client.reassign_partitions({TopicPartition("idle", 0): [3]})

    asyncio.run(ask())
