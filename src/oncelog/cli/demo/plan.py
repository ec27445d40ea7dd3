"""What the demo runs, and when it kills."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum, StrEnum
from pathlib import Path

from oncelog.testing.proxy import ApiKey, Point

INPUT_TOPIC = "flights"
PARTITIONS = 4
MICRO_BATCHES = 6
FLIGHTS_MIN = 1000
"""With fewer, a micro-batch would not have records for every partition, and some moments to kill would never come."""


class Guarantee(StrEnum):
    """The two ways in which the same job is run."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A function of a user file under `examples/`."""

    function: str
    output_mode: str

    @property
    def file(self) -> str:
        return f"{self.function}.py"

    def topic(self, guarantee: Guarantee) -> str:
        """Where it writes. The at-least-once run has topics of its own beside the others."""
        return self.function if guarantee is Guarantee.EXACTLY_ONCE else f"{self.function}-at-least-once"


DEPARTURES = Pipeline("departures", "append")
AIRLINES = Pipeline("airlines", "update")
PIPELINES = (DEPARTURES, AIRLINES)


@dataclass(frozen=True, slots=True)
class Task:
    """What one run of the driver has to do."""

    bootstrap_servers: str
    guarantee: Guarantee
    checkpoints: Path
    offsets_per_batch: int
    finished: Path
    """A file that the driver makes when it has done all of it."""

    def to_line(self) -> str:
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_line(cls, line: str) -> Task:
        fields = json.loads(line)
        return cls(
            bootstrap_servers=fields["bootstrap_servers"],
            guarantee=Guarantee(fields["guarantee"]),
            checkpoints=Path(fields["checkpoints"]),
            offsets_per_batch=fields["offsets_per_batch"],
            finished=Path(fields["finished"]),
        )


class Victim(Enum):
    DRIVER = "driver"
    BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Moment:
    """A place on the wire: the nth request of one API, or the nth answer to one."""

    api_key: ApiKey
    point: Point
    nth: int


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill -9: at `moment` of a run of the driver, counted from the first write of `pipeline`.

    `after` is a moment that has to pass first, so that a kill falls into the middle of a micro-batch.
    """

    victim: Victim
    pipeline: Pipeline
    what: str
    moment: Moment
    after: Moment | None = None


def kills(guarantee: Guarantee) -> tuple[Kill, ...]:
    """One for each run of the driver. The broker's comes in the last run, which ends by itself."""
    return EXACTLY_ONCE_KILLS if guarantee is Guarantee.EXACTLY_ONCE else AT_LEAST_ONCE_KILLS


EXACTLY_ONCE_KILLS = (
    Kill(
        Victim.DRIVER,
        DEPARTURES,
        "some records had been produced",
        Moment(ApiKey.PRODUCE, Point.ANSWER, 2),
        after=Moment(ApiKey.END_TXN, Point.ANSWER, 1),
    ),
    Kill(Victim.DRIVER, DEPARTURES, "the offsets were in", Moment(ApiKey.TXN_OFFSET_COMMIT, Point.ANSWER, 2)),
    Kill(Victim.DRIVER, DEPARTURES, "EndTxn was sent, not answered", Moment(ApiKey.END_TXN, Point.ANSWER, 2)),
    Kill(
        Victim.DRIVER,
        AIRLINES,
        "records had been produced",
        Moment(ApiKey.PRODUCE, Point.ANSWER, 1),
        after=Moment(ApiKey.END_TXN, Point.ANSWER, 1),
    ),
    Kill(Victim.DRIVER, AIRLINES, "EndTxn was sent, not answered", Moment(ApiKey.END_TXN, Point.ANSWER, 2)),
    Kill(Victim.BROKER, AIRLINES, "EndTxn was done, not answered", Moment(ApiKey.END_TXN, Point.ANSWER, 1)),
)

AT_LEAST_ONCE_KILLS = (
    Kill(
        Victim.DRIVER,
        DEPARTURES,
        "some records had been produced",
        Moment(ApiKey.PRODUCE, Point.ANSWER, 2),
        after=Moment(ApiKey.OFFSET_COMMIT, Point.ANSWER, 1),
    ),
    Kill(Victim.DRIVER, DEPARTURES, "all records had been produced", Moment(ApiKey.OFFSET_COMMIT, Point.REQUEST, 2)),
    Kill(Victim.DRIVER, DEPARTURES, "the offsets were in", Moment(ApiKey.OFFSET_COMMIT, Point.ANSWER, 2)),
    Kill(
        Victim.DRIVER,
        AIRLINES,
        "records had been produced",
        Moment(ApiKey.PRODUCE, Point.ANSWER, 1),
        after=Moment(ApiKey.OFFSET_COMMIT, Point.ANSWER, 1),
    ),
    Kill(Victim.DRIVER, AIRLINES, "the offsets were in", Moment(ApiKey.OFFSET_COMMIT, Point.ANSWER, 2)),
    Kill(Victim.BROKER, AIRLINES, "the offsets were in", Moment(ApiKey.OFFSET_COMMIT, Point.ANSWER, 1)),
)
