"""Brokers of Apache Kafka and of oncelog in one cluster, under either's controller: each follows the other's partitions."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from harness import dump_log
from harness.cluster import Cluster
from harness.kafka_tools import KafkaTools, ToolProcess
from harness.oncelog_cluster import OncelogMember
from harness.waiting import until
from tests.cluster.processes.load import Record, TransactionalProducer, read_all
from tests.cluster.processes.replicas import partitions, wait_until_equal, wait_until_in_sync
from tests.cluster.processes.trial import PARTITIONS, TOPIC, Role, Trial

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.jvm]

MIXTURES = {
    "two of theirs, their controller": (("kafka", "kafka", "oncelog"), 0),
    "two of theirs, our controller": (("kafka", "kafka", "oncelog"), 2),
    "two of ours, their controller": (("oncelog", "oncelog", "kafka"), 2),
    "two of ours, our controller": (("oncelog", "oncelog", "kafka"), 0),
}

IDS = [name.replace(",", "").replace(" ", "-") for name in MIXTURES]


def dump_all(cluster: Cluster) -> None:
    """Kafka's own tool finds nothing wrong with the files of any broker. Theirs stop first, while others can take over."""
    for broker in sorted(cluster.brokers.values(), key=lambda one: isinstance(one, OncelogMember)):
        broker.stop(60)
        files = sorted(broker.data_directory.glob(f"{TOPIC}-*/*.*"))
        files = [file for file in files if file.suffix in (".log", ".index", ".timeindex")]
        said = dump_log.dump(files, "--index-sanity-check")
        assert "Found" not in said, said
        assert said.count("Dumping") == len(files)


@pytest.mark.drawn(32)
@pytest.mark.parametrize("role", Role, ids=lambda role: role.name.lower())
@pytest.mark.parametrize("mixture", MIXTURES.values(), ids=IDS)
def test_killed_broker_loses_nothing_and_comes_back(led_cluster, mixture, role: Role) -> None:
    kinds, controller = mixture
    cluster = led_cluster(*kinds, controller=controller)
    trial = Trial(cluster)
    trial.run(lambda: trial.kill(trial.broker(role)))
    dump_all(cluster)


@pytest.mark.drawn(24)
@pytest.mark.parametrize("mixture", MIXTURES.values(), ids=IDS)
def test_suspended_broker_of_ours_takes_nothing_back(led_cluster, mixture) -> None:
    kinds, controller = mixture
    trial = Trial(led_cluster(*kinds, controller=controller))
    trial.run(lambda: trial.suspend(trial.cluster.brokers[kinds.index("oncelog")]))


@pytest.mark.drawn(16)
@pytest.mark.parametrize("mixture", MIXTURES.values(), ids=IDS)
def test_partitions_go_from_theirs_to_ours_and_back_under_a_load(
    led_cluster, tool_process: ToolProcess, mixture, tmp_path: Path
) -> None:
    kinds, controller = mixture
    cluster = led_cluster(*kinds, controller=controller)
    tools = KafkaTools(tool_process, cluster.bootstrap_servers)
    theirs, ours = ([one for one, kind in enumerate(kinds) if kind == wanted] for wanted in ("kafka", "oncelog"))
    trial = Trial(cluster)

    def move(brokers: list[int]) -> None:
        reassign(tools, brokers, tmp_path)
        until(lambda: has_replicas(cluster, brokers), 60)
        wait_until_in_sync(cluster)
        trial.load.goes_on()

    # Half of the brokers alone cannot have what the topic wants in sync (min.insync.replicas), so one of the others stays.
    trial.run(
        lambda: move([*ours, theirs[0]][:2]),
        lambda: move([*theirs, ours[0]][:2]),
        lambda: move([*ours, *theirs]),
    )


@pytest.mark.drawn(8)
@pytest.mark.parametrize(
    "name", ["two of theirs, their controller", "two of ours, our controller"], ids=["two-of-theirs", "two-of-ours"]
)
def test_transaction_ends_wherever_its_partitions_are_led(led_cluster, name: str) -> None:
    """Every broker coordinates a transaction with a record in every partition: each sends markers to each, and is asked by
    each, before it takes a record, whether the transaction has the partition (KIP-890).
    """
    kinds, controller = MIXTURES[name]
    trial = Trial(led_cluster(*kinds, controller=controller))
    servers = trial.cluster.bootstrap_servers
    written: dict[bool, set[Record]] = {True: set(), False: set()}
    for transactional_id in trial.transactional_ids:
        producer = TransactionalProducer(servers, transactional_id)
        producer.init()
        for commits in (True, False, True, False):
            producer.begin()
            for index in range(PARTITIONS):
                value = f"{transactional_id}:{len(written[commits])}:{commits}"
                producer.send(TOPIC, index, transactional_id, value)
                written[commits].add((TOPIC, index, value))
            (producer.commit if commits else producer.abort)()
    assert read_all(servers, TOPIC, PARTITIONS) == Counter(written[True])
    wait_until_equal(trial.cluster)
    trial.nobody_failed()


def has_replicas(cluster: Cluster, brokers: list[int]) -> bool:
    return all(found == set(brokers) for (topic, _), (_, found, _) in partitions(cluster).items() if topic == TOPIC)


def reassign(tools: KafkaTools, brokers: list[int], directory: Path) -> None:
    """Kafka's own tool asks the controller for it."""
    wanted = directory / "wanted.json"
    placed = [{"topic": TOPIC, "partition": index, "replicas": brokers} for index in range(PARTITIONS)]
    wanted.write_text(json.dumps({"version": 1, "partitions": placed}))
    ended = tools("kafka-reassign-partitions", "--execute", "--reassignment-json-file", str(wanted))
    assert "Successfully started partition reassignments" in ended.text, ended
