"""Stops a query at every point before its first micro-batch is done, changes its topics, and starts it again.

    python -m tests.spark.sweep.first_program --broker oncelog|apache --directory DIR [--only CHANGE ...] [--changes N]
        [--points N] [--seed N]

Without --changes and --points it is all of them. It prints one line of JSON for each change.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from oncelog.spark import exactly_once
from tests.spark import topics
from tests.spark.sweep.changes import CHANGES, DELETED, NOTHING, PARTITIONS, Change, Place
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
from tests.spark.sweep.kinds import RECORDS, A
from tests.spark.sweep.recorder import Point, Recorder

OFFSETS_MAX = 40
"""So that there are two micro-batches."""
WORDS_MAX = 2000
TIMEOUT_MS = 8000
"""How long a query waits for a cluster that is away."""


@dataclass
class Outcome:
    """What came of one change: from how many points the query was started again, and how many of them it refused."""

    change: str
    start: str
    points: int
    planned: int
    tried: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)


class FirstSweep:
    def __init__(self, broker: str, directory: Path) -> None:
        self._make_node, self._settle = NODES[broker], SETTLE[broker]
        self._directory = directory
        self._recorder = Recorder()
        self._spark = watched_session(directory, self._recorder.port)

    def close(self) -> None:
        self._spark.stop()

    def run(self, change: Change, points_max: int | None, choice: random.Random) -> Outcome:
        directory = self._directory / f"{CHANGES.index(change):02d}"
        node = self._make_node(directory / "node", **SMALL)
        node.start()
        try:
            for name in (A, TARGET):
                topics.create(node.bootstrap_servers, name, PARTITIONS)
            topics.produce(node.bootstrap_servers, A, RECORDS)
            place = Place(node, topics.read(node.bootstrap_servers, A)[0][:DELETED])
            checkpoint = directory / "checkpoint"
            self._recorder.begin(node, checkpoint, directory / "points", lambda: self._settle(node))
            problem = self._query(place, checkpoint, change)
            points = [point for point in self._recorder.end() if not _is_done(point)]
            assert problem is None, problem
            planned = sum(map(_is_planned, points))
            assert 0 < planned < len(points)
            outcome = Outcome(change.name, json.dumps(change.start), len(points), planned)
            chosen = points if points_max is None else _drawn(points, points_max, choice)
            for point in chosen:
                outcome.tried += 1
                wrong = self._from(point, place, checkpoint, change, outcome)
                if wrong is not None:
                    name = f"point {point.directory.name} ({Path(point.change).name})"
                    outcome.wrong.append(f"{name}: {wrong[:WORDS_MAX]}")
            return outcome
        finally:
            node.kill()
            shutil.rmtree(directory)

    def _from(self, point: Point, place: Place, checkpoint: Path, change: Change, outcome: Outcome) -> str | None:
        """Start again from a point; say what is wrong, if anything."""
        node = place.node
        put_back(node, checkpoint, point)
        node.start()
        change.make(place)
        expected = change.expected(place, _is_planned(point))
        problem = self._query_again(place, checkpoint, change)
        if problem is None:
            return _difference(expected.records, records_of(node))
        outcome.refused += 1
        if expected.refusal is None or expected.refusal not in problem:
            return problem
        if expected.then is None:
            return _difference(NOTHING, records_of(node))
        expected.repaired(place)
        found = records_of(node)
        problem = self._query_again(place, checkpoint, change, failOnDataLoss="false")
        return problem or _difference(expected.then(found), records_of(node))

    def _query_again(self, place: Place, checkpoint: Path, change: Change, **options: str) -> str | None:
        """Where Spark asks for the removal of a checkpoint that it had only begun, nothing may be written, and it is removed."""
        problem = self._query(place, checkpoint, change, **options)
        if problem is None or REFUSED not in problem:
            return problem
        if records_of(place.node):
            return f"something is written, and then: {problem}"
        shutil.rmtree(checkpoint)
        return self._query(place, checkpoint, change, **options)

    def _query(self, place: Place, checkpoint: Path, change: Change, **options: str) -> str | None:
        """Run the query to the end of what is there; return why it failed."""
        sink = exactly_once(topic=TARGET, transactional_id=ID, bootstrap_servers=place.servers)
        known = {
            "kafka.bootstrap.servers": place.servers,
            "maxOffsetsPerTrigger": str(OFFSETS_MAX),
            "kafka.default.api.timeout.ms": str(TIMEOUT_MS),
        }
        rows = self._spark.readStream.format("oncelog").options(**known, **change.start, **options).load()
        try:
            query = (
                rows.select("key", "value")
                .writeStream.foreachBatch(sink)
                .option("checkpointLocation", f"watched:{checkpoint}")
                .trigger(availableNow=True)
                .start()
            )
            if not query.awaitTermination(SECONDS_MAX):
                query.stop()
                return f"not done in {SECONDS_MAX} s"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the point came to
            return str(error)
        finally:
            sink.close()
        return None


def _drawn(points: list[Point], points_max: int, choice: random.Random) -> list[Point]:
    """One of those with a micro-batch that was planned is among them: those have something to lose."""
    first = choice.choice([point for point in points if _is_planned(point)])
    others = [point for point in points if point is not first]
    return [first, *choice.sample(others, min(points_max - 1, len(others)))]


def _is_planned(point: Point) -> bool:
    return (point.checkpoint / "offsets" / "0").exists()


def _is_done(point: Point) -> bool:
    return (point.checkpoint / "commits" / "0").exists()


def _difference(expected: Records | None, found: Records) -> str | None:
    if expected is None:
        return f"it went on, and wrote {sum(found.values())} records"
    return difference(expected, found)


def main() -> None:
    asked = arguments("changes", "CHANGE").parse_args()
    run_all(FirstSweep(asked.broker, asked.directory), CHANGES, asked)
    sys.exit(0)


if __name__ == "__main__":
    main()
