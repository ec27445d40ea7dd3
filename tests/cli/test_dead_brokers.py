"""What an operator's commands say while one broker of three is dead: what the others know, and what nobody knows."""

from __future__ import annotations

import pytest

from harness.names import unique
from harness.waiting import until
from oncelog.client import Client, NewTopic, Producer, TopicPartition
from oncelog.coordination.internal_topics import partition_for

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.drawn(3)]


@pytest.fixture
def cluster(new_cluster):
    return new_cluster("oncelog", "oncelog", "oncelog")


@pytest.fixture
def run(cli, cluster):
    return lambda *arguments: cli(*arguments, "--bootstrap-server", cluster.bootstrap_servers)


@pytest.fixture
def opened(cluster, caplog):
    """The id of a producer with a transaction that is open in six partitions, each of which is on one broker alone.

    A close aborts what is open then, whether or not all markers can be written.
    """
    name = unique("open")
    with Client(cluster.bootstrap_servers) as client:
        client.create_topics([NewTopic(name, 6, 1)])
    producer = Producer(cluster.bootstrap_servers, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    for number in range(6):
        producer.send(name, b"value", partition=number).result()
    yield name
    producer.close()
    assert "left to its timeout" not in caplog.text


@pytest.fixture
def killed(cluster, opened):
    """A broker that leads two of the partitions and coordinates other ids than this one; it was killed just now."""
    with Client(cluster.bootstrap_servers) as client:
        leaders = {item.partition: item.leader for item in client.metadata([opened])[opened].partitions}
        coordinator = coordinator_of(client, opened)
    dead = next(number for number in cluster.brokers if number != coordinator)
    cluster.brokers[dead].kill()
    return cluster.brokers[dead], [f"{opened}-{number}" for number, leader in sorted(leaders.items()) if leader == dead]


def coordinator_of(client, transactional_id):
    led = client.metadata(["__transaction_state"])["__transaction_state"].partitions
    number = partition_for(transactional_id, len(led))
    return next(item.leader for item in led if item.partition == number)


def test_listings_come_without_the_dead_broker(run, opened, killed):
    listed = run("transactions", "list", "--json")
    assert listed.status == 0, listed.errors
    assert opened in [row["transactional_id"] for row in listed.json]
    assert run("groups", "list").status == 0


def test_transaction_is_shown_and_aborted_but_where_nobody_leads(run, opened, killed, cluster):
    broker, leaderless = killed
    described = run("transactions", "describe", opened)
    assert described.status == 0, described.errors
    assert described.errors == f"oncelog: without a leader, and so without offsets: {', '.join(leaderless)}\n"
    rows = {
        f"{opened}-{row['partition']}": row
        for row in run("transactions", "describe", opened, "--json").json["partitions"]
    }
    assert [row["held_back"] for name, row in rows.items() if name not in leaderless] == [1] * 4
    assert [(rows[name]["waits_for"], rows[name]["high_watermark"]) for name in leaderless] == [("leader", None)] * 2

    ended = run("transactions", "abort", opened, "--yes")
    assert ended.status == 0, ended.errors
    assert ended.lines[-3:] == [f"aborted {opened}", *(f"{name} still waits for its leader" for name in leaderless)]
    assert "its producer is not fenced" in ended.errors
    waiting = run("transactions", "describe", opened, "--json").json
    assert waiting["state"] == "PrepareAbort"
    assert [f"{opened}-{row['partition']}" for row in waiting["partitions"] if row["waits_for"]] == leaderless

    broker.start()
    until(lambda: run("transactions", "describe", opened, "--json").json["state"] == "CompleteAbort", 60)
    with Client(cluster.bootstrap_servers) as client:
        assert client.end_offsets([TopicPartition(opened, number) for number in range(6)]) == {
            TopicPartition(opened, number): 2 for number in range(6)
        }
