"""Pipelines of spark-pipelines: several flows write to one sink, and each of them exactly once, whenever a run is killed."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from harness.names import unique
from oncelog.testing.proxy import Proxy
from tests.spark import topics
from tests.spark.declarative import FlowsProject
from tests.spark.strikes import Event, Fate, Step, strike

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

SEED = int(os.environ.get("ONCELOG_SEED", "1"))
STEPS = (Step.TAKE, Step.PRODUCE, Step.COMMIT_OFFSETS, Step.END)
FATES = (Fate.ARRIVES, Fate.LATE, Fate.LOST, Fate.ANSWERED)
KILLS = 3
RECORDS = 240
LIMIT = 100
TOO_LARGE_EVERY = 60
VALUE_BYTES_MAX = 2000
INPUTS = ("orders", "refunds")


class Ledger:
    """A sink on one broker, and two flows into it from a topic each."""

    def __init__(self, node, project: FlowsProject, number: int) -> None:
        self.node, self.servers = node, node.bootstrap_servers
        self.proxy = Proxy(self.servers)
        self.inputs = [topics.create(self.servers, unique(name), 2) for name in INPUTS]
        self.output = topics.create(self.servers, unique("ledger"), 3, {"max.message.bytes": str(VALUE_BYTES_MAX)})
        self.dead = topics.create(self.servers, unique("dead"), 1)
        self.sent = 0
        self.expected: Counter[str] = Counter()
        self.expected_dead: Counter[str] = Counter()
        self.sink = {"kafka.bootstrap.servers": self.proxy.bootstrap_servers}
        project.sink(
            f"ledger{number}",
            topic=self.output,
            unwritable="dead-letter",
            deadLetterTopic=self.dead,
            **self.sink,
            **{"kafka.transactional.id": f"{self.output}-{{query}}"},
        )
        for name, topic in zip(INPUTS, self.inputs, strict=True):
            columns = ("key", f"concat('{name} ', cast(value as string)) value")
            project.flow(f"{name}{number}", f"ledger{number}", self.source(topic), *columns)

    def source(self, topic: str) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(LIMIT),
        }

    def produce(self) -> None:
        """More for both flows; a few of the records are larger than the output takes."""
        for name, topic in zip(INPUTS, self.inputs, strict=True):
            records = [
                (key, value if number % TOO_LARGE_EVERY else value + "x" * VALUE_BYTES_MAX)
                for number, (key, value) in enumerate(topics.keyed_records(RECORDS, start=self.sent))
            ]
            topics.produce(self.servers, topic, records)
            for _, value in records:
                written = self.expected if len(value) < VALUE_BYTES_MAX else self.expected_dead
                written[f"{name} {value}"] += 1
        self.sent += RECORDS

    def assert_exactly_once(self) -> None:
        output = topics.read(self.servers, self.output)
        assert Counter(topics.values(output)) == self.expected
        assert Counter(topics.values(topics.read(self.servers, self.dead))) == self.expected_dead
        for key, values in topics.by_key(output).items():
            for name in INPUTS:
                of_one_flow = [value for value in values if value.startswith(name)]
                assert of_one_flow == sorted(of_one_flow), key


@pytest.fixture
def project(tmp_path):
    made = FlowsProject(tmp_path / "project")
    yield made
    made.close()


@pytest.mark.chaos
@pytest.mark.jvm
@pytest.mark.drawn(24)
def test_flows_write_exactly_once_however_often_a_run_is_killed_and_one_that_fails_stops_no_other(
    project, oncelog_broker, kafka
):
    drawn = random.Random(SEED)
    ledgers = [Ledger(node, project, number) for number, node in enumerate((oncelog_broker, kafka))]
    never = topics.create(ledgers[0].servers, unique("never"), 1)
    project.sink("never", topic=never, **ledgers[0].sink)
    project.flow("failing", "never", ledgers[0].source(ledgers[0].inputs[0]), "raise_error('broken') value")
    steps = drawn.sample(STEPS, KILLS)
    for number, step in enumerate(steps):
        ledger = ledgers[(number + SEED) % len(ledgers)]
        for one in ledgers:
            one.produce()
        fate, nth = drawn.choice(FATES), drawn.randint(1, 4)
        struck = strike(ledger.proxy, step, Event.DRIVER_KILLED, fate, nth, project.kill)
        project.start()
        project.wait_for(struck)
    assert project.run() != 0, "a flow fails"
    assert "Flow 'failing' has FAILED more than" in project.said()
    assert topics.values(topics.read(ledgers[0].servers, never)) == []
    for ledger in ledgers:
        ledger.assert_exactly_once()
        ledger.proxy.close()
