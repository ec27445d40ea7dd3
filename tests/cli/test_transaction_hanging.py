"""`oncelog transactions find-hanging`, and `abort` with a partition: what only Apache Kafka leaves behind."""

from __future__ import annotations

import pytest

from harness.kafka import KafkaNode
from harness.names import unique
from harness.shared_producer import TV1, Cluster, Driver


@pytest.fixture(scope="module")
def unverified(tmp_path_factory):
    """It takes records of a transaction that its coordinator was not told of."""
    node = KafkaNode(tmp_path_factory.mktemp("unverified"), **{"transaction.partition.verification.enable": "false"})
    node.start()
    yield Cluster(node)
    node.kill()


@pytest.fixture
def run(cli, unverified):
    return lambda *arguments: cli(*arguments, "--bootstrap-server", unverified.bootstrap_servers)


@pytest.fixture
def hung(unverified):
    """A transactional id of which a transaction hangs in partition 1 of a topic from offset 0 on, and that topic."""
    driver, topic = Driver(unverified, TV1, unique("hanging")), unverified.create_topic(2)
    driver.init()
    driver.produce(driver.connection, topic, {1: driver.batch(0, ["held back"])})
    return driver.transactional_id, topic


def abort(run, topic, *options):
    return run("transactions", "abort", "--topic", topic, "--partition", "1", "--start-offset", "0", *options)


@pytest.mark.jvm
def test_hanging_transaction_is_found_and_ended(run, unverified, hung):
    name, topic = hung
    (row,) = run("transactions", "find-hanging", "--topic", topic, "--json").json
    assert (row["partition"], row["start_offset"], row["transactional_id"]) == (1, 0, name)
    assert row in run("transactions", "find-hanging", "--json").json
    for elsewhere in (("--partition", "0"), ("--broker-id", "7"), ("--max-transaction-timeout", "15")):
        assert run("transactions", "find-hanging", "--topic", topic, *elsewhere, "--json").json == []
    refused = abort(run, topic)
    assert (refused.status, refused.errors) == (2, "oncelog: nothing was changed: do it with --yes\n")
    ended = abort(run, topic, "--yes")
    assert (ended.status, ended.errors) == (0, "")
    assert ended.lines[1].split()[:4] == [topic, "1", "0", name]
    assert ended.lines[2] == f"aborted the transaction that hung in {topic}-1 from offset 0 on"
    assert run("transactions", "find-hanging", "--topic", topic, "--json").json == []
    again = abort(run, topic, "--yes")
    assert again.status == 4
    assert again.sentence == f"nothing was changed: no transaction hangs in {topic}-1 from offset 0 on"


def test_transaction_that_is_open_is_not_ended_in_one_partition(here, oncelog_broker):
    cluster = Cluster(oncelog_broker)
    driver, topic = Driver(cluster, TV1), cluster.create_topic(2)
    driver.init()
    driver.add(topic, [1])
    driver.produce(driver.connection, topic, {1: driver.batch(0, ["held back"])})
    assert here("transactions", "find-hanging", "--topic", topic, "--json").json == []
    ended = abort(here, topic, "--yes")
    assert ended.status == 4
    assert ended.sentence == (
        f"nothing was changed: transactional id {driver.transactional_id!r} has a transaction open: that is to be aborted first"
    )
    driver.complete()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("abort",), "name either an ID or --topic"),
        (("abort", "payments", "--topic", "t"), "name either an ID or --topic"),
        (("abort", "--topic", "t", "--partition", "1"), "needs all of --topic, --partition and --start-offset"),
        (("find-hanging", "--partition", "1"), "--partition needs --topic"),
    ],
)
def test_half_a_place_is_wrong_usage(here, arguments, said):
    ended = here("transactions", *arguments)
    assert ended.status == 2
    assert said in " ".join(ended.errors.replace("│", "").split())
