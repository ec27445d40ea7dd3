"""A cluster of Apache Kafka takes in brokers of oncelog and gives up its own, by replicas, and back, under a load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster import Cluster
from harness.waiting import until
from tests.cluster.processes.conftest import KINDS, NOT_CLEANED
from tests.cluster.processes.load import Load
from tests.cluster.processes.replicas import partitions, wait_until_in_sync
from tests.cluster.processes.trial import GROUP, PARTITIONS, TOPIC, Trial, reassign

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.jvm]

THEIRS, OURS = (0, 1), (2, 3)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, [KINDS["kafka"]] * len(THEIRS), **NOT_CLEANED)
    everybody = made.brokers
    made.start()
    yield made
    made.brokers = everybody
    made.kill()


@pytest.mark.drawn(8)
@pytest.mark.timeout(1200)
def test_all_replicas_go_to_the_other_kind_and_back(cluster: Cluster) -> None:
    trial = Trial(cluster)
    everybody = cluster.brokers
    for broker_id in OURS:
        cluster.add(broker_id, KINDS["oncelog"], **NOT_CLEANED)
    # Clients that begin anew find those that run, whichever these are.
    trial.load = Load(cluster.bootstrap_servers, TOPIC, PARTITIONS, trial.transactional_ids, GROUP, 1)

    def give_way(leaving: tuple[int, ...], coming: tuple[int, ...]) -> None:
        cluster.brokers = everybody
        for broker_id in coming:
            if not everybody[broker_id].is_running:
                everybody[broker_id].start()
        trial.is_whole_again()
        reassign(cluster, coming)
        until(lambda: all(found == set(coming) for _, found, _ in partitions(cluster).values()), 60)
        wait_until_in_sync(cluster)
        for broker_id in leaving:
            everybody[broker_id].stop(60)
        cluster.brokers = {broker_id: everybody[broker_id] for broker_id in coming}
        trial.is_whole_again()

    trial.run(lambda: give_way(THEIRS, OURS), lambda: give_way(OURS, THEIRS))
