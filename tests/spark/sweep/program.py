"""Runs each kind of query once, catches every point at which its driver could have died, and starts it again from each.

    python -m tests.spark.sweep.program --broker oncelog|apache --directory DIR [--only KIND ...] [--kinds N] [--points N]
        [--seed N] [--keep DIR]

Without --kinds and --points it is all of them. It prints one line of JSON for each kind.

A micro-batch without new data, which moves the watermark, Spark runs only after another one of the same run: a query that
begins behind a finished micro-batch writes what is closed by then when the next records come. So where something is missing,
next records come, to the query that was never stopped too. Where the driver died while Spark wrote the offsets of its first
micro-batch, Spark may ask for the checkpoint's removal: then nothing may be written yet, and it is removed.
"""

from __future__ import annotations

import random
import shutil
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.oncelog_process import OncelogNode
from harness.processes import BrokerProcess
from oncelog.spark import committed_offsets, exactly_once
from tests.spark import topics
from tests.spark.sweep.frame import (
    ID,
    NODES,
    REFUSED,
    SECONDS_MAX,
    SETTLE,
    SMALL,
    TARGET,
    Records,
    arguments,
    difference,
    put_back,
    records_of,
    run_all,
    watched_session,
)
from tests.spark.sweep.kinds import FEWER, KINDS, NEXT, RECORDS, A, B, Kind, Readers
from tests.spark.sweep.recorder import Point, Recorder, copy


@dataclass
class Outcome:
    """What came of one kind: how many changes the checkpoint saw, how many different points, from how many it went on.

    `with_next` of those had all of the output only after the next records; `refused` could not begin before the checkpoint
    was removed.
    """

    kind: str
    records: int
    micro_batches: int
    changes: int
    points: int
    tried: int = 0
    with_next: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)


Found = tuple[Records, Any]
"""The records of the output, and the offsets of the input that are committed with them."""


@dataclass(frozen=True)
class Setting:
    """Where a kind's query runs, and what it wrote without a stop: at the end of the input, and after the next records."""

    kind: Kind
    node: BrokerProcess
    far: BrokerProcess
    checkpoint: Path
    expected: Found | None = None
    expected_with_next: Found | None = None


class Sweep:
    def __init__(self, broker: str, directory: Path, keep: Path | None) -> None:
        self._keep = keep
        self._make_node = NODES[broker]
        self._settle = SETTLE[broker]
        self._directory = directory
        self._recorder = Recorder()
        self._far = OncelogNode(directory / "far")
        self._far.start()
        self._spark = watched_session(directory, self._recorder.port)

    def close(self) -> None:
        self._spark.stop()
        self._far.kill()

    def run(self, kind: Kind, points_max: int | None, choice: random.Random) -> Outcome:
        directory = self._directory / f"{KINDS.index(kind):02d}"
        node = self._make_node(directory / "node", **SMALL)
        node.start()
        try:
            return self._run(kind, node, directory, points_max, choice)
        finally:
            node.kill()
            shutil.rmtree(directory)

    def _run(
        self, kind: Kind, node: BrokerProcess, directory: Path, points_max: int | None, choice: random.Random
    ) -> Outcome:
        far = node if not kind.far else self._far
        for servers, name, count in ((node, A, 2), (far, B, 2), (node, TARGET, 2)):
            topics.create(servers.bootstrap_servers, name, count)
        topics.produce(node.bootstrap_servers, A, RECORDS)
        topics.produce(far.bootstrap_servers, B, FEWER)
        setting = Setting(kind, node, far, directory / "checkpoint")
        self._recorder.begin(node, setting.checkpoint, directory / "points", lambda: self._settle(node))
        problem = self._query(setting)
        points = self._recorder.end()
        assert problem is None, f"{kind.name}: {problem}"
        setting = replace(setting, expected=_found(node))
        outcome = Outcome(
            kind.name,
            records=sum(_found(node)[0].values()),
            micro_batches=sum(path.name.isdigit() for path in (setting.checkpoint / "commits").iterdir()),
            changes=self._recorder.changes,
            points=len(points),
        )
        assert outcome.records > 0
        assert outcome.micro_batches >= 3
        problem = self._next(setting)
        assert problem is None, f"{kind.name}: {problem}"
        setting = replace(setting, expected_with_next=_found(node))
        chosen = points if points_max is None or points_max >= len(points) else choice.sample(points, points_max)
        for point in chosen:
            wrong = self._from(point, setting, outcome)
            outcome.tried += 1
            if wrong:
                wrong += f"; with what is not committed: {dict(records_of(node, 'read_uncommitted'))}"
                if self._keep is not None:
                    copy(point.directory, self._keep / f"{kind.name} {point.directory.name}")
                outcome.wrong.append(f"point {point.directory.name} ({Path(point.change).name}): {wrong}")
        if kind.far:
            self._forget_far()
        return outcome

    def _from(self, point: Point, setting: Setting, outcome: Outcome) -> str | None:
        """Start again from a point; say what is wrong, if anything."""
        node = setting.node
        put_back(node, setting.checkpoint, point)
        node.start()
        problem = self._query(setting)
        if problem is not None and REFUSED in problem:
            outcome.refused += 1
            if records_of(node):
                return f"something is written, and then: {problem}"
            shutil.rmtree(setting.checkpoint)
            problem = self._query(setting)
        if problem is not None or _difference(setting.expected, _found(node)) is None:
            return problem
        outcome.with_next += 1
        return self._next(setting) or _difference(setting.expected_with_next, _found(node))

    def _next(self, setting: Setting) -> str | None:
        """Let the next records come."""
        topics.produce(setting.node.bootstrap_servers, A, NEXT)
        if setting.far is setting.node:
            topics.produce(setting.node.bootstrap_servers, B, NEXT)
        return self._query(setting)

    def _query(self, setting: Setting) -> str | None:
        """Run the query to the end of what is there; return why it failed."""
        kind, node = setting.kind, setting.node
        # Spark keeps loaded state by the checkpoint's name, and would not read what has been put there.
        self._spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
        sink = exactly_once(topic=TARGET, transactional_id=ID, bootstrap_servers=node.bootstrap_servers)
        for name, value in kind.settings.items():
            self._spark.conf.set(name, value)
        try:
            rows = kind.build(Readers(self._spark, node.bootstrap_servers, setting.far.bootstrap_servers))
            query = (
                rows.writeStream.outputMode(kind.output_mode)
                .foreachBatch(sink)
                .option("checkpointLocation", f"watched:{setting.checkpoint}")
                .trigger(availableNow=True)
                .start()
            )
            if not query.awaitTermination(SECONDS_MAX):
                query.stop()
                return f"not done in {SECONDS_MAX} s"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the point came to
            return str(error)[:2000]
        finally:
            sink.close()
            for name in kind.settings:
                self._spark.conf.unset(name)
        return None

    def _forget_far(self) -> None:
        self._far.kill()
        shutil.rmtree(self._far.data_directory)
        self._far.start()


def _found(node: BrokerProcess) -> Found:
    return records_of(node), committed_offsets(node.bootstrap_servers, ID)


def _difference(expected: Found | None, found: Found) -> str | None:
    assert expected is not None, "the query has run without a stop before"
    if expected[1] != found[1]:
        return f"offsets {found[1]}, not {expected[1]}; {difference(expected[0], found[0])}"
    return difference(expected[0], found[0])


def main() -> None:
    parser = arguments("kinds", "KIND")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy the points that went wrong there")
    asked = parser.parse_args()
    run_all(Sweep(asked.broker, asked.directory, asked.keep), KINDS, asked)
    sys.exit(0)


if __name__ == "__main__":
    main()
