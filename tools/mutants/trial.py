"""What the tests say about one mutant."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from tools.mutants.folders import folder_of
from tools.mutants.mutant import Mutant
from tools.mutants.test_map import QUICK, TestMap, quickest
from tools.mutants.tree import Run, Tree

START_S = 60.0
TIMES_LONGER = 5
"""How long tests may take before a mutant is one that never ends: this, and so many times what they usually take."""
WITH_JAVA_S = 600.0


class Verdict(Enum):
    FOUND = "found"
    BY_TIME = "found, by its time"
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


class Tests:
    """Chooses the tests for a mutant, and runs them in a tree of its own."""

    def __init__(self, tree: Tree, maps: dict[str, TestMap], further_s: float) -> None:
        self._tree = tree
        self._maps = maps
        self._further_s = further_s

    def try_out(self, mutant: Mutant) -> Outcome:
        """The tests of its folder first, then others that run its lines, then those of which nobody knows."""
        folder = folder_of(mutant.path)
        source = (self._tree.root / mutant.path).read_bytes()
        own = self._maps[folder.tests].covering(mutant)
        further = {tests: self._maps[tests].covering(mutant) for tests in folder.further if tests in self._maps}
        with self._tree.changed(mutant.path, mutant.applied(source)):
            run = self._own(folder.tests, own)
            if run.passed:
                run = self._further(further, run)
            if run.passed and folder.with_java:
                run = self._tree.pytest(["-x", "-m", "spark or jvm", *folder.with_java], WITH_JAVA_S)
        if run.status is None:
            return Outcome(mutant, Verdict.BY_TIME, "")
        if not run.passed:
            return Outcome(mutant, Verdict.FOUND, run.failed_test)
        asked = own or any(further.values()) or folder.with_java
        return Outcome(mutant, Verdict.SURVIVED if asked else Verdict.NOT_RUN, "")

    def _own(self, tests: str, chosen: set[str]) -> Run:
        """A test that is newer than the map is asked, too."""
        seconds = self._maps[tests].seconds
        return self._quick([tests], seconds.keys() - chosen, sum(seconds[test] for test in chosen))

    def _further(self, covering: dict[str, set[str]], otherwise: Run) -> Run:
        seconds: dict[str, float] = {}
        for tests in covering:
            seconds |= self._maps[tests].seconds
        chosen = quickest(set().union(*covering.values()), seconds, self._further_s)
        files = sorted({test.partition("::")[0] for test in chosen})
        if not files:
            return otherwise
        return self._quick(files, seconds.keys() - set(chosen), sum(seconds[test] for test in chosen))

    def _quick(self, paths: list[str], left_out: set[str], usual_s: float) -> Run:
        file = self._tree.root / "left-out.json"
        file.write_text(json.dumps(sorted(left_out)))
        arguments = ["-x", *QUICK, "--limited", f"--left-out={file}", *paths]
        return self._tree.pytest(arguments, START_S + TIMES_LONGER * usual_s)


def all_pass(tree: Tree, maps: dict[str, TestMap], tests: str) -> Run:
    """The folder's own tests on the tree as it is: where they fail, what they say about a mutant means nothing."""
    return Tests(tree, maps, 0)._own(tests, set(maps[tests].seconds))


def kept_in(root: Path) -> Path:
    return root / ".cache" / "mutants"
