"""Executors, workers and the driver of a real cluster, killed while a micro-batch is written: each ends exactly once.

ONCELOG_SEED chooses the deployment, whom it hits, and at which request; with ONCELOG_CLUSTER=whole all are run.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from harness.processes import BrokerProcess
from oncelog.client.values import TransactionVersion
from tests.spark import topics
from tests.spark.cluster.standalone import IS_WHOLE, OWN_ONCELOG, SEED, SMALL, StandaloneCluster
from tests.spark.driver import Form
from tests.spark.lanes import Driver, Kind, Lane
from tests.spark.strikes import Event, Step

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.chaos]

STEPS = (Step.PRODUCE, Step.COMMIT_OFFSETS, Step.END)


class Loss(Enum):
    """Who is killed with -9."""

    EXECUTOR = "executor"
    WORKER = "worker, with its executor"
    DRIVER = "driver"


@dataclass(frozen=True)
class Deployment:
    """How the cluster is used."""

    modes: tuple[str, ...]
    settings: dict[str, str]


DEPLOYMENTS = {
    "two executors": Deployment(("shared-producer", "driver-pump"), {}),
    "speculation": Deployment(
        ("shared-producer", "driver-pump"),
        {
            "spark.speculation": "true",
            "spark.speculation.interval": "50ms",
            "spark.speculation.quantile": "0.1",
            "spark.speculation.multiplier": "1.0",
            "spark.speculation.minTaskRuntime": "0ms",
        },
    ),
    "dynamic allocation": Deployment(
        ("auto", "driver-pump"),
        {
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.dynamicAllocation.minExecutors": "0",
            "spark.dynamicAllocation.executorIdleTimeout": "1s",
            "spark.dynamicAllocation.cachedExecutorIdleTimeout": "2s",
            "spark.dynamicAllocation.shuffleTracking.timeout": "2s",
        },
    ),
}


class Losses:
    """Pipelines on a cluster, and what is killed under them."""

    def __init__(self, cluster: StandaloneCluster, broker: BrokerProcess, name: str, directory: Path) -> None:
        directory.mkdir()
        deployment = DEPLOYMENTS[name]
        self.cluster = cluster
        self._random = random.Random(f"{SEED} {name}")
        mode = self._random.choice(deployment.modes)
        kinds = [Kind(mode, TransactionVersion.TV2), Kind("auto", TransactionVersion.TV2, form=Form.STATEFUL)]
        self.lanes = [Lane(broker, kind, directory, SEED) for kind in kinds]
        self.driver = Driver(directory / "plan.json", directory / "driver.txt", directory / "endings.txt")
        plan = {
            "master": cluster.url,
            "settings": {**SMALL, **OWN_ONCELOG, **deployment.settings},
            "endings": str(self.driver.endings),
            "lanes": [lane.plan for lane in self.lanes],
        }
        self.driver.plan.write_text(json.dumps(plan))
        self.driver.start()
        self.problems: list[str] = []
        self.executors_killed = 0
        self.seconds: list[str] = []

    def suffer(self, loss: Loss) -> None:
        """Kill while one pipeline is at a request drawn at random, and the other is at work."""
        lane, other = self.lanes
        step = self._random.choice(STEPS)
        began = time.monotonic()
        event = Event.DRIVER_KILLED if loss is Loss.DRIVER else Event.TASK_FAILS
        with ThreadPoolExecutor(1) as pool:
            steady = pool.submit(other.steady)
            outcomes = {lane.name: lane.cell(event, step, self._kill(loss), _nothing), other.name: steady.result()}
        self.seconds.append(f"{loss.value} {time.monotonic() - began:.0f} s")
        self.problems += [
            f"{loss.value} at {step.value}: {name}: {found}" for name, found in outcomes.items() if found != "exact"
        ]

    def _kill(self, loss: Loss) -> Callable[[], object]:
        def executor() -> None:
            running = self.cluster.executors()
            # With dynamic allocation there may be none at this moment.
            if running:
                self._random.choice(running).kill()
                self.executors_killed += 1

        def worker() -> None:
            self.cluster.kill_worker()
            self.cluster.start_workers(1)

        def driver() -> None:
            self.driver.kill()
            self.driver.start()

        return {Loss.EXECUTOR: executor, Loss.WORKER: worker, Loss.DRIVER: driver}[loss]

    def close(self) -> None:
        self.driver.kill()
        for lane in self.lanes:
            lane.close()


def _nothing() -> None:
    return


def _drawn() -> list[tuple[str, list[Loss]]]:
    """Deployments and what they suffer: each loss once, in an order drawn at random, or three times in all of them."""
    draw = random.Random(SEED)
    if IS_WHOLE:
        return [(name, draw.sample([*Loss] * 3, 9)) for name in DEPLOYMENTS]
    return [(draw.choice([*DEPLOYMENTS]), draw.sample([*Loss], 3))]


@pytest.mark.drawn(16)
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("name", "losses"), _drawn(), ids=lambda drawn: drawn if isinstance(drawn, str) else "")
def test_killed_on_a_cluster_everything_is_written_once(name, losses, cluster, oncelog_broker, tmp_path, summary):
    pipelines = Losses(cluster, oncelog_broker, name, tmp_path / "pipelines")
    try:
        for loss in losses:
            pipelines.suffer(loss)
            assert not pipelines.problems, "\n".join(pipelines.problems)
        for lane in pipelines.lanes:
            assert topics.by_key(topics.read(oncelog_broker.bootstrap_servers, lane.target)) == lane.ledger.expected
    finally:
        pipelines.close()
    endings = Counter(ending[:60] for _, ending in pipelines.driver.why_queries_ended())
    summary(
        f"{name}: {', '.join(pipelines.seconds)}; {pipelines.executors_killed} executors; queries that were started again: "
        f"{dict(endings)}"
    )
