"""Which test runs which line: made once for a folder of tests, and kept."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

from coverage import CoverageData

from tools.mutants.mutant import Mutant
from tools.mutants.tree import Tree

QUICK = ["-m", "not slow and not jvm and not spark"]


class TestMap:
    def __init__(self, tests: str, kept: Path) -> None:
        self.tests = tests
        file = _file(tests, kept)
        self.seconds: dict[str, float] = json.loads(file.with_suffix(".json").read_text())
        """How long each test takes, of those that pass."""
        self._data = CoverageData(basename=str(file))
        self._data.read()
        self._measured = {_in_tree(path): path for path in self._data.measured_files()}

    def runs_at_import(self, mutant: Mutant) -> bool:
        """Whether its lines ran before any test."""
        measured = self._measured.get(mutant.path)
        by_line = self._data.contexts_by_lineno(measured) if measured is not None else {}
        return any("" in by_line.get(line, ()) for line in range(mutant.first_line, mutant.last_line + 1))

    def covering(self, mutant: Mutant) -> set[str]:
        """The tests that run one of the mutant's lines, or any line of its file where an import runs those."""
        measured = self._measured.get(mutant.path)
        if measured is None:
            return set()
        by_line = self._data.contexts_by_lineno(measured)
        lines = by_line if mutant.runs_at_import else range(mutant.first_line, mutant.last_line + 1)
        return {test for line in lines for test in by_line.get(line, ())} & self.seconds.keys()


def make(tests: str, kept: Path, tree: Tree) -> None:
    """Run the tests once, and remember which lines they run."""
    file = _file(tests, kept)
    if file.with_suffix(".json").exists():
        return
    made = tree.root / file.name
    tree.pytest([tests, *QUICK, f"--remember={made}"], None)
    kept.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(made, file)
    # Last, for this one says that both are there.
    shutil.copyfile(made.with_suffix(".json"), file.with_suffix(".json"))


def _file(tests: str, kept: Path) -> Path:
    return kept / (tests.replace("/", "-") + ".coverage")


def _in_tree(path: str) -> str:
    """The path from the root of the tree: the copy that it was measured in is gone."""
    return path[path.rindex("/src/oncelog/") + 1 :]


def quickest(seconds: dict[str, float], budget_s: float = math.inf) -> list[str]:
    """As many tests as fit into this time, the quickest first."""
    chosen, taken_s = [], 0.0
    for test in sorted(seconds, key=lambda test: (seconds[test], test)):
        taken_s += seconds[test]
        if taken_s > budget_s:
            break
        chosen.append(test)
    return chosen
