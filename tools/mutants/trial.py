"""What the tests say about one mutant."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import NamedTuple

from tools.mutants.collected import Collected
from tools.mutants.folders import Folder, folder_of
from tools.mutants.mutant import Mutant
from tools.mutants.test_map import QUICK, TestMap, quickest
from tools.mutants.tree import Run, Tree

TIMES_LONGER = 5
"""How much longer than usual the tests may take before a mutant is one that never ends."""
WITH_JAVA_S = 1800.0
UNKNOWN_S = 1.0
"""How long a test takes of which the map says nothing."""
UNDECIDED = Run(None, "")

Ask = Callable[[Mutant | None], Run]
"""Runs tests with a change, or without any."""


class Verdict(Enum):
    FOUND = "found"
    BY_TIME = "found, by its time"
    UNDECIDED = "UNDECIDED, for the tests fail or take as long without it"
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
    """Beyond what they usually take."""
    with_java: bool


class Trial:
    """Chooses the tests for a mutant, and runs them in a tree of its own."""

    def __init__(self, tree: Tree, maps: dict[str, TestMap], collected: Collected, asked: Asked) -> None:
        self._tree = tree
        self._maps = maps
        self._collected = collected
        self._asked = asked

    def of(self, mutant: Mutant) -> Outcome:
        """The tests of its folder first, then others that run its lines, then those of which nobody knows."""
        folder = folder_of(mutant.path)
        seconds = self._seconds(folder, mutant)
        tests, timeout_s = list(seconds), self._asked.start_s + TIMES_LONGER * sum(seconds.values())
        asks: list[Ask] = []
        if tests:
            asks.append(lambda changed: self._quick(tests, timeout_s, changed, is_imported=self._is_imported(mutant)))
        if folder.with_java and self._asked.with_java:
            asks.append(lambda changed: self._with_java(folder.with_java, changed))
        for ask in asks:
            run = ask(mutant)
            if run.status is None:
                run = self._late(ask, mutant)
            if not run.passed:
                return self._failed(ask, mutant, run)
        return Outcome(mutant, Verdict.SURVIVED if asks else Verdict.NOT_RUN, "")

    def without_a_change(self, folder: Folder) -> Run:
        """Tests of which the map does not say that they pass: where they fail, what they say about a mutant means nothing."""
        return self._unchanged(*sorted(self._unknown(folder)))

    def _late(self, ask: Ask, mutant: Mutant) -> Run:
        """A machine with much else to do makes every test slow: the change has to do so before and after none did."""
        return ask(mutant) if ask(None).passed else UNDECIDED

    def _failed(self, ask: Ask, mutant: Mutant, run: Run) -> Outcome:
        """A test that fails without the change, too, says nothing about it."""
        if run.status is None:
            verdict = Verdict.UNDECIDED if run is UNDECIDED else Verdict.BY_TIME
            return Outcome(mutant, verdict, "")
        again = self._unchanged(run.failed_test) if "::" in run.failed_test else ask(None)
        return Outcome(mutant, Verdict.FOUND if again.passed else Verdict.UNDECIDED, run.failed_test)

    def _seconds(self, folder: Folder, mutant: Mutant) -> dict[str, float]:
        """The tests that are asked, in this order, and how long each takes."""
        seconds = {tests: self._maps[tests].seconds for tests in (folder.tests, *folder.further) if tests in self._maps}
        covering = {tests: self._maps[tests].covering(mutant) for tests in seconds}
        own = {test: seconds[folder.tests][test] for test in covering[folder.tests]}
        further = {
            test: seconds[tests][test] for tests in folder.further if tests in seconds for test in covering[tests]
        }
        unknown = dict.fromkeys(self._unknown(folder), UNKNOWN_S)
        chosen = [*quickest(own), *sorted(unknown), *quickest(further, self._asked.further_s)]
        return {test: (further | unknown | own)[test] for test in chosen if test in self._collected.tests}

    def _unknown(self, folder: Folder) -> set[str]:
        """Tests that are newer than the map, or did not pass."""
        known = self._maps[folder.tests].seconds
        return {test for test in self._collected.tests if test.startswith(f"{folder.tests}/")} - known.keys()

    def _is_imported(self, mutant: Mutant) -> bool:
        return mutant.runs_at_import or any(tests.runs_at_import(mutant) for tests in self._maps.values())

    def _quick(self, tests: list[str], timeout_s: float, changed: Mutant | None, *, is_imported: bool) -> Run:
        """Where an import runs the code, too, it was as it is without the change: a fork that finds nothing has not seen all."""
        with self._changed(changed) as source:
            run = self._collected.run(tests, timeout_s, changed, source)
            if run is not None and not (run.passed and is_imported):
                return run
            return self._anew(tests, timeout_s)

    def _anew(self, tests: list[str], timeout_s: float) -> Run:
        file = self._tree.root / "tests.json"
        file.write_text(json.dumps(tests))
        paths = dict.fromkeys(test.partition("::")[0] for test in tests)
        return self._tree.pytest(["-x", *QUICK, "--limited", f"--chosen={file}", *paths], timeout_s)

    def _with_java(self, paths: tuple[str, ...], changed: Mutant | None) -> Run:
        with self._changed(changed):
            return self._tree.pytest(["-x", "-m", "spark or jvm", *paths], WITH_JAVA_S)

    def _unchanged(self, *tests: str) -> Run:
        if self._collected.tests.issuperset(tests):
            return self._collected.run(list(tests), WITH_JAVA_S) or UNDECIDED
        return self._tree.pytest([*tests], WITH_JAVA_S)

    @contextmanager
    def _changed(self, mutant: Mutant | None) -> Iterator[bytes]:
        """The tree with the mutant in it, and what its file was before."""
        if mutant is None:
            yield b""
            return
        source = (self._tree.root / mutant.path).read_bytes()
        with self._tree.changed(mutant.path, mutant.applied(source)):
            yield source
