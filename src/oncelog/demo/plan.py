"""The pipelines of the demo, and the task of one run of its driver."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

INPUT_TOPIC = "flights"
PARTITIONS = 4
FLIGHTS_MIN = 1000
"""With fewer, some micro-batch would have no records for some partition, and some kills would never happen."""


class Guarantee(StrEnum):
    """The two ways in which the same job is run."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True)
class DemoPipeline:
    """A function of a user file under `examples/`."""

    function: str
    output_mode: str

    @property
    def file(self) -> str:
        return f"{self.function}.py"

    def topic(self, guarantee: Guarantee) -> str:
        """The output topic. The at-least-once run has topics of its own."""
        return self.function if guarantee is Guarantee.EXACTLY_ONCE else f"{self.function}-at-least-once"


DEPARTURES = DemoPipeline("departures", "append")
AIRLINES = DemoPipeline("airlines", "update")
PIPELINES = (DEPARTURES, AIRLINES)


def examples_directory() -> Path | None:
    """The directory of the user files: in this package when it is installed, else at the root of the source tree."""
    package = Path(__file__).parent
    places = (package / "examples", package.parents[2] / "examples")
    return next((one for one in places if all((one / pipeline.file).is_file() for pipeline in PIPELINES)), None)


@dataclass(frozen=True, slots=True)
class DemoRun:
    """The task of one run of the driver."""

    bootstrap_servers: str
    guarantee: Guarantee
    checkpoints: Path
    offsets_per_batch: int
    finished: Path
    """A file that the driver makes when it has done all of it."""

    def to_line(self) -> str:
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_line(cls, line: str) -> DemoRun:
        fields = json.loads(line)
        return cls(
            bootstrap_servers=fields["bootstrap_servers"],
            guarantee=Guarantee(fields["guarantee"]),
            checkpoints=Path(fields["checkpoints"]),
            offsets_per_batch=fields["offsets_per_batch"],
            finished=Path(fields["finished"]),
        )
