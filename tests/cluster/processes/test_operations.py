"""What an operator does to a cluster that works: brokers are restarted, come and go, and lose a disk, all under a load."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cluster import Cluster
from harness.waiting import until
from tests.cluster.processes.conftest import KINDS, NOT_CLEANED
from tests.cluster.processes.load import Load
from tests.cluster.processes.replicas import partitions, wait_until_in_sync
from tests.cluster.processes.trial import GROUP, PARTITIONS, TOPIC, Trial, reassign

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.jvm]

THREE = ("oncelog",) * 3


@pytest.mark.drawn(8)
@pytest.mark.timeout(600)
def test_rolling_restart_is_no_error_at_any_producer(led_cluster) -> None:
    """Each broker is stopped, is started, and has all replicas in sync again before the next one is stopped."""
    trial = Trial(led_cluster(*THREE))

    def restart(broker_id: int) -> None:
        broker = trial.cluster.brokers[broker_id]
        broker.stop()
        broker.start()
        trial.is_whole_again()

    trial.run(*(lambda broker_id=broker_id: restart(broker_id) for broker_id in trial.cluster.brokers))
    assert trial.load.errors() == []


@pytest.mark.drawn(8)
@pytest.mark.timeout(900)
def test_cluster_grows_to_five_brokers_and_gives_up_those_it_began_with(led_cluster) -> None:
    cluster = led_cluster(*THREE)
    trial = Trial(cluster)
    everybody = cluster.brokers
    for broker_id in (3, 4):
        cluster.add(broker_id, KINDS["oncelog"], **NOT_CLEANED)
    trial.load = Load(cluster.bootstrap_servers, TOPIC, PARTITIONS, trial.transactional_ids, GROUP, 1)

    def move(brokers: tuple[int, ...]) -> None:
        reassign(cluster, brokers)
        # Whoever is asked may not have been told yet.
        until(lambda: with_replicas(cluster) == set(brokers), 60)
        wait_until_in_sync(cluster)

    def grow() -> None:
        for broker_id in (3, 4):
            everybody[broker_id].start()
        trial.is_whole_again()
        move((0, 1, 2, 3, 4))
        trial.is_whole_again()

    def shrink() -> None:
        move((2, 3, 4))
        for broker_id in (0, 1):
            everybody[broker_id].stop()
        cluster.brokers = {broker_id: everybody[broker_id] for broker_id in (2, 3, 4)}
        trial.is_whole_again()

    trial.run(grow, shrink)


@pytest.mark.drawn(8)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("disks", [1, 2], ids=["its-only-disk", "one-of-two"])
def test_broker_with_a_new_disk_in_the_place_of_a_dead_one_gets_everything_back(
    led_cluster, tmp_path: Path, disks: int
) -> None:
    """A broker without its only disk is gone; with another one it goes on until it is stopped for the new disk."""
    mounted = [str(tmp_path / f"disk-{number}") for number in range(disks)]
    cluster = led_cluster(*THREE, own={1: {"log.dirs": ",".join(mounted)}})
    trial = Trial(cluster)
    broker = cluster.brokers[1]
    dead = broker.log_directories[-1]

    def replace() -> None:
        hosted = [directory for directory in dead.iterdir() if directory.name.startswith(TOPIC)]
        assert hosted
        if disks == 1:
            broker.kill()
        dead.rename(tmp_path / "taken out")
        if disks == 2:
            gone = [name_and_index(directory.name) for directory in hosted]
            until(lambda: all(1 not in partitions(cluster)[one][2] for one in gone), 60)
            trial.load.goes_on()
            broker.stop()
        until(lambda: all(1 not in other.known_brokers() for other in cluster.brokers.values() if other is not broker))
        dead.mkdir()
        broker.start()
        trial.is_whole_again()

    trial.run(replace)


def with_replicas(cluster: Cluster) -> set[int]:
    """The brokers that have a replica of anything."""
    return {broker_id for _, replicas, _ in partitions(cluster).values() for broker_id in replicas}


def name_and_index(directory: str) -> tuple[str, int]:
    topic, _, index = directory.rpartition("-")
    return topic, int(index)
