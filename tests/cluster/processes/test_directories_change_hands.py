"""A cluster of Apache Kafka becomes one of oncelog, broker by broker on their own directories, and back, under a load."""

from __future__ import annotations

import subprocess

import pytest

from harness.cluster import Cluster
from harness.oncelog_cluster import OncelogMember
from harness.oncelog_process import OncelogNode
from tests.cluster.processes.conftest import KINDS
from tests.cluster.processes.trial import Trial

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.jvm]

OTHER = {"kafka": "oncelog", "oncelog": "kafka"}


@pytest.mark.drawn(16)
@pytest.mark.timeout(900)
def test_each_broker_goes_on_with_the_replicas_of_the_other_kind(led_cluster) -> None:
    cluster = led_cluster("kafka", "kafka", "kafka")
    trial = Trial(cluster)
    trial.run(
        *(lambda broker_id=broker_id: change(trial, broker_id, "kafka") for broker_id in range(3)),
        *(lambda broker_id=broker_id: change(trial, broker_id, "oncelog") for broker_id in range(3)),
    )


def change(trial: Trial, broker_id: int, source: str) -> None:
    cluster = trial.cluster
    before = cluster.brokers[broker_id]
    before.stop(60)
    if broker_id == 0:
        assert refuses_to_start(cluster, broker_id, OTHER[source])
    done = convert(cluster, broker_id, source)
    assert "is now the data directory" in done, done
    assert "was already the data directory" in convert(cluster, broker_id, source)
    if broker_id == 0:
        assert refuses_to_start(cluster, broker_id, source)
    broker = replace(cluster, broker_id, OTHER[source])
    broker.start()
    trial.is_whole_again()
    if isinstance(broker, OncelogMember):
        said = broker.output.read_text(errors="replace")
        assert "is offline" not in said, said


def replace(cluster: Cluster, broker_id: int, kind: str):
    port = cluster.brokers[broker_id].port
    broker = cluster.add(broker_id, KINDS[kind], **{"log.cleaner.enable": "false"})
    broker.port = port
    broker.configure()
    return broker


def convert(cluster: Cluster, broker_id: int, source: str) -> str:
    wanted = ["--from", "kafka"] if source == "kafka" else ["--to", "kafka"]
    directory = str(cluster.brokers[broker_id].data_directory)
    command = [OncelogNode.program(), "cluster", "convert", *wanted, "--data-dir", directory]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refuses_to_start(cluster: Cluster, broker_id: int, kind: str) -> bool:
    """A broker of the other kind does not take what is not its own."""
    broker = replace(cluster, broker_id, kind)
    broker.launch()
    assert broker._process is not None
    return broker._process.wait(60) != 0
