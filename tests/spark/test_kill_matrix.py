"""The steps of a micro-batch, struck by every event, on both brokers, on three and in both modes; each cell ends exactly once.

All breaking is done from outside: a proxy for each pipeline sees its requests and answers, and holds the one that a cell
is about until every pipeline has come to its own; then the driver, the tasks or the broker are killed under all of them.
ONCELOG_SEED chooses which occurrence is struck, what becomes of the request, and how much there is to copy; it also draws two
of the four events beside the death of the driver. ONCELOG_WHOLE=1 takes all of them, which needs eight minutes.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.oncelog_process import OncelogNode
from oncelog.client.values import TransactionVersion
from tests.spark import topics
from tests.spark.driver import Form
from tests.spark.lanes import Driver, Kind, Lane, Node, ThreeBrokers, kind_of_ending
from tests.spark.strikes import ROUNDS, STEPS, Event, Step

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.chaos]

SEED = int(os.environ.get("ONCELOG_SEED", "1"))
MODES = ("shared-producer", "driver-pump")
GATE_SECONDS = 240.0
OTHER_EVENTS = tuple(event for event in Event if event is not Event.DRIVER_KILLED)
STATEFUL = "EndTxn, with state"


class Matrix:
    """The lanes, what strikes them, and what came of it."""

    def __init__(self, nodes: Sequence[Node], directory: Path, events: Collection[Event]) -> None:
        self._events = events
        self.lanes = [Lane(node, kind, directory, SEED) for node in nodes for kind in _kinds(node)]
        self.driver = Driver(directory / "plan.json", directory / "driver.txt", directory / "endings.txt")
        plan = {
            "master": f"local[{4 * len(self.lanes)},3]",
            "endings": str(self.driver.endings),
            "lanes": [lane.plan for lane in self.lanes],
        }
        self.driver.plan.write_text(json.dumps(plan))
        self.outcomes: dict[tuple[str, str, str], dict[Event, list[str]]] = {}
        self._is_hopeless = threading.Event()
        self._stateless = [lane for lane in self.lanes if not lane.kind.stateful]
        self._all_at_once = threading.Barrier(len(self.lanes), self._kill_driver)
        self._tasks_at_once = threading.Barrier(len(self._stateless), self._kill_tasks)
        self._brokers_at_once = {id(node): self._broker_barrier(node) for node in nodes}

    def run(self) -> None:
        with ThreadPoolExecutor(len(self.lanes)) as pool:
            list(pool.map(self._run_lane, self.lanes))

    def _run_lane(self, lane: Lane) -> None:
        try:
            self._all_cells(lane)
        except BaseException:
            self._give_up()
            raise

    def _all_cells(self, lane: Lane) -> None:
        for round_number in range(ROUNDS):
            first = round_number == 0 and lane is self.lanes[0]
            self._cell(lane, Event.DRIVER_KILLED, round_number, self.driver.start if first else _nothing)
        for event in self._events:
            for round_number in range(ROUNDS):
                if lane.kind.stateful and (event is not Event.CUT_BEFORE_ANSWER or round_number):
                    continue
                takes = lane.step(round_number) is Step.TAKE
                restart = (lambda: self.driver.restart_query(lane)) if takes else _nothing
                self._cell(lane, event, round_number, restart)

    def _cell(self, lane: Lane, event: Event, round_number: int, before: Callable[[], object]) -> None:
        if self._is_hopeless.is_set():
            return
        step = lane.step(round_number)
        gate = {Event.DRIVER_KILLED: self._all_at_once, Event.TASK_FAILS: self._tasks_at_once}.get(
            event, self._brokers_at_once[id(lane.node)]
        )
        outcome = lane.cell(event, step, lambda: gate.wait(GATE_SECONDS), before)
        row = (lane.node.name, STATEFUL if lane.kind.stateful else step.value, lane.kind.mode)
        self.outcomes.setdefault(row, {}).setdefault(event, []).append(outcome)
        if outcome != "exact":
            self._give_up()

    def _give_up(self) -> None:
        """The others would wait for this lane at the next gate."""
        self._is_hopeless.set()
        for gate in (self._all_at_once, self._tasks_at_once, *self._brokers_at_once.values()):
            gate.abort()

    def _kill_driver(self) -> None:
        self.driver.kill()
        self.driver.start()

    def _kill_tasks(self) -> None:
        for lane in self._stateless:
            lane.fail_next_task()
        self.driver.kill_workers()

    def _broker_barrier(self, node: Node) -> threading.Barrier:
        def kill() -> None:
            node.kill()
            threading.Thread(target=node.start, daemon=True).start()

        return threading.Barrier(sum(lane.node is node for lane in self._stateless), kill)

    def problems(self) -> list[str]:
        found = [
            f"{' / '.join(row)} / {event.value}: {outcome}"
            for row, events in self.outcomes.items()
            for event, outcomes in events.items()
            for outcome in outcomes
            if outcome != "exact"
        ]
        for lane in self.lanes:
            read = topics.by_key(topics.read(lane.node.bootstrap_servers, lane.target))
            if read != lane.ledger.expected:
                found.append(f"{lane.name}: a reader that begins at the start sees something else")
        return found

    def table(self) -> str:
        """Steps as rows, events as columns."""
        heads = ["broker", "step", "mode", *(event.value for event in Event)]
        order = [step.value for step in Step] + [STATEFUL]
        rows = sorted(self.outcomes, key=lambda row: (row[0], order.index(row[1]), row[2]))
        lines = [heads, *([*row, *(_summary(self.outcomes[row].get(event, [])) for event in Event)] for row in rows)]
        widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
        return "\n".join(
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines
        )

    def close(self) -> None:
        self.driver.kill()
        for lane in self.lanes:
            lane.close()


def _drawn_events() -> list[Event]:
    """What strikes beside the death of the driver, in the order of the table."""
    if os.environ.get("ONCELOG_WHOLE") == "1":
        return list(OTHER_EVENTS)
    drawn = random.Random(SEED).sample(OTHER_EVENTS, 2)
    return [event for event in OTHER_EVENTS if event in drawn]


def _kinds(node: Node) -> list[Kind]:
    """Both modes; TV2 in both of them on oncelog, TV1 in the one that the seed says. One lane has state.

    A cluster over ZooKeeper cannot say that it has TV2.
    """
    if isinstance(node, ThreeBrokers):
        kinds = [Kind(mode, TransactionVersion.TV1) for mode in MODES]
        return [*kinds, Kind("auto", TransactionVersion.TV1, form=Form.STATEFUL)]
    is_oncelog = node.name == OncelogNode.name
    mode, other = MODES if (SEED + is_oncelog) % 2 else reversed(MODES)
    kinds = [Kind(mode, TransactionVersion.TV2), Kind(other, TransactionVersion.TV1)]
    if is_oncelog:
        kinds += [Kind(other, TransactionVersion.TV2), Kind("auto", TransactionVersion.TV2, form=Form.STATEFUL)]
    return kinds


def _nothing() -> None:
    return


def _summary(outcomes: list[str]) -> str:
    wrong = [outcome for outcome in outcomes if outcome != "exact"]
    if wrong:
        return "; ".join(wrong)
    return "exact" if len(outcomes) == 1 else f"exact x{len(outcomes)}" if outcomes else "-"


@pytest.mark.drawn(16)
@pytest.mark.timeout(1500)
def test_every_step_struck_by_every_event_ends_exactly_once(new_oncelog, new_kafka, tmp_path, summary):
    matrix, events = _run([new_oncelog(), new_kafka()], tmp_path, summary)
    nodes = ("oncelog", "Apache Kafka")
    assert _struck(matrix) == {(node, step.value, event) for node in nodes for step in Step for event in events}


@pytest.mark.jvm
@pytest.mark.drawn(16)
@pytest.mark.timeout(1500)
def test_every_step_struck_on_three_brokers_ends_exactly_once(new_cluster, tmp_path, summary):
    node = ThreeBrokers(new_cluster("oncelog", "oncelog", "oncelog"))
    matrix, events = _run([node], tmp_path, summary)
    steps = STEPS[TransactionVersion.TV1]
    assert _struck(matrix) == {(node.name, step.value, event) for step in steps for event in events}


def _run(nodes: Sequence[Node], directory: Path, summary: Callable[[str], None]) -> tuple[Matrix, list[Event]]:
    """The matrix, and what has struck every step in it."""
    events = _drawn_events()
    matrix = Matrix(nodes, directory, events)
    try:
        matrix.run()
        problems = matrix.problems()
    finally:
        matrix.close()
    endings = Counter(kind_of_ending(ending) for _, ending in matrix.driver.why_queries_ended())
    summary(
        f"kill matrix, seed {SEED}\n\n{matrix.table()}\n\n"
        f"{matrix.driver.starts} drivers; queries ended and were started again: {dict(endings)}"
    )
    assert not problems, "\n".join(problems)
    return matrix, [Event.DRIVER_KILLED, *events]


def _struck(matrix: Matrix) -> set[tuple[str, str, Event]]:
    return {
        (node, step, event)
        for (node, step, _), events in matrix.outcomes.items()
        for event in events
        if step != STATEFUL
    }


def test_every_step_has_a_round():
    for steps in STEPS.values():
        assert len(steps) == ROUNDS
    assert {step for steps in STEPS.values() for step in steps} == set(Step)
