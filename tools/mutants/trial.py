"""What the tests say about one mutant."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from tools.mutants.folders import folder_of
from tools.mutants.mutant import Mutant
from tools.mutants.test_map import QUICK, TestMap, quickest
from tools.mutants.tree import Run, Tree

TIMES_LONGER = 5
"""How much longer than usual the tests may take before a mutant is one that never ends."""
WITH_JAVA_S = 1800.0


class Verdict(Enum):
    FOUND = "found"
    BY_TIME = "found, by its time"
    UNDECIDED = "UNDECIDED, for the tests take as long without it"
    SURVIVED = "SURVIVED"
    NOT_RUN = "SURVIVED, no test runs it"

    @property
    def is_found(self) -> bool:
        return self in (Verdict.FOUND, Verdict.BY_TIME)


class Outcome(NamedTuple):
    mutant: Mutant
    verdict: Verdict
    by: str
    """The test that found it."""


class Asked(NamedTuple):
    """How much the tests may take."""

    further_s: float
    """Those of other folders."""
    start_s: float
    """Until they begin."""
    with_java: bool


class Trial:
    """Chooses the tests for a mutant, and runs them in a tree of its own."""

    def __init__(self, tree: Tree, maps: dict[str, TestMap], asked: Asked) -> None:
        self._tree = tree
        self._maps = maps
        self._asked = asked
        self._last: tuple[list[str], float] = ([], 0)

    def of(self, mutant: Mutant) -> Outcome:
        """The tests of its folder first, then others that run its lines, then those of which nobody knows."""
        folder = folder_of(mutant.path)
        source = (self._tree.root / mutant.path).read_bytes()
        own = self._maps[folder.tests].covering(mutant)
        further = {tests: self._maps[tests].covering(mutant) for tests in folder.further if tests in self._maps}
        with_java = folder.with_java if self._asked.with_java else ()
        with self._tree.changed(mutant.path, mutant.applied(source)):
            run = self._own(folder.tests, own)
            if run.passed:
                run = self._further(further, run)
            if run.passed and with_java:
                run = self._pytest(["-x", "-m", "spark or jvm", *with_java], WITH_JAVA_S)
        if run.status is None:
            # A machine with much else to do makes every test slow.
            is_slow = self._tree.pytest(*self._last).status is None
            return Outcome(mutant, Verdict.UNDECIDED if is_slow else Verdict.BY_TIME, "")
        if not run.passed:
            return Outcome(mutant, Verdict.FOUND, run.failed_test)
        is_run = own or any(further.values()) or with_java
        return Outcome(mutant, Verdict.SURVIVED if is_run else Verdict.NOT_RUN, "")

    def without_a_change(self, tests: str) -> Run:
        """A folder's own tests on the tree as it is: where they fail, what they say about a mutant means nothing."""
        return self._own(tests, set(self._maps[tests].seconds))

    def _own(self, tests: str, covering: set[str]) -> Run:
        """All but those that are known to run something else: a test that is newer than the map is asked, too."""
        seconds = self._maps[tests].seconds
        return self._quick([tests], "--left-out", seconds.keys() - covering, sum(seconds[test] for test in covering))

    def _further(self, covering: dict[str, set[str]], otherwise: Run) -> Run:
        seconds = {test: self._maps[tests].seconds[test] for tests, found in covering.items() for test in found}
        chosen = quickest(seconds, self._asked.further_s)
        if not chosen:
            return otherwise
        files = sorted({test.partition("::")[0] for test in chosen})
        return self._quick(files, "--chosen", chosen, sum(seconds[test] for test in chosen))

    def _quick(self, paths: list[str], option: str, tests: Iterable[str], usual_s: float) -> Run:
        file = self._tree.root / "tests.json"
        file.write_text(json.dumps(sorted(tests)))
        arguments = ["-x", *QUICK, "--limited", f"{option}={file}", *paths]
        return self._pytest(arguments, self._asked.start_s + TIMES_LONGER * usual_s)

    def _pytest(self, arguments: list[str], timeout_s: float) -> Run:
        self._last = (arguments, timeout_s)
        return self._tree.pytest(arguments, timeout_s)
