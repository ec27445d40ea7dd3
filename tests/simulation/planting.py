"""What a planted bug is: a mistake that somebody could make, in a patch of the real class, and where it hides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

Patch = AbstractContextManager[Any]


class Hides(Enum):
    """What has to happen for a bug to show."""

    IN_A_RULE = "in a rule"
    UNDER_WAY = "while a sync, a checkpoint or a retirement is under way"
    WAITS = "topics that go while a request waits"
    AFTER_A_CHANGE = "power cut right after a rare change"
    CRASHES = "several crashes, new writes between them"
    PRODUCERS = "several producers at once"
    CONSTANTS = "behind a large constant"
    ABORTS = "overlapping aborts in several segments"
    CUT_ANSWERS = "answers that end at any batch"
    OLD_OR_REFUSED = "old versions, and refusals"
    FAILURES = "several failures in a row"
    ON_THE_WAY = "what is on the way at a time"


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """`seeds` runs of a minute, whichever the first seed is, are enough to find it. `plant` makes it so while it is entered."""

    name: str
    hides: Hides
    seeds: int
    plant: Callable[[], Patch]


class PlantedBugs(list[PlantedBug]):
    """The bugs of one part of the code."""

    def add(self, name: str, hides: Hides, seeds: int) -> Callable[[Callable[[], Patch]], Callable[[], Patch]]:
        def added(plant: Callable[[], Patch]) -> Callable[[], Patch]:
            self.append(PlantedBug(name, hides, seeds, plant))
            return plant

        return added


@contextmanager
def both(*patches: Patch) -> Iterator[None]:
    with ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield
