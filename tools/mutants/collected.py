"""Tests that a process has collected, and runs in forks of itself: nothing is imported or collected again for a mutant."""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any

from tools.mutants.mutant import Mutant
from tools.mutants.test_map import QUICK
from tools.mutants.tree import Run, Tree, kill_session, last_line

TO_TEAR_DOWN_S = 10.0
"""For what a test that has failed has started."""


class CannotCollect(Exception):
    """Says what pytest said last."""


class Collected:
    def __init__(self, tree: Tree, paths: list[str]) -> None:
        self._tree = tree
        questions, asks = os.pipe()
        self._answers, answers = os.pipe()
        self._asks = os.fdopen(asks, "w")
        self._unread = bytearray()
        output = tree.root / "collected.out"
        self._process = tree.start_pytest(
            [*QUICK, f"--forks={questions},{answers}", *paths], (questions, answers), output
        )
        os.close(questions)
        os.close(answers)
        started = self._next(None)
        if started is None:
            raise CannotCollect(last_line(output.read_text()))
        self.tests: frozenset[str] = frozenset(started["tests"])

    def run(self, tests: list[str], timeout_s: float, mutant: Mutant | None = None, source: bytes = b"") -> Run | None:
        """Run them one after the other until one fails. None: the mutant is in what only an import makes."""
        self._tree.empty()
        asked: dict[str, Any] = {"tests": tests, "path": None, "before": "", "after": ""}
        if mutant is not None:
            asked |= {"path": mutant.path, "before": source.decode(), "after": mutant.applied(source).decode()}
        self._asks.write(json.dumps(asked) + "\n")
        self._asks.flush()
        return self._answer(timeout_s)

    def _answer(self, timeout_s: float) -> Run | None:
        run: Run | None = Run(-1, "the process of the tests ended")
        until_s: float | None = time.monotonic() + timeout_s
        while True:
            words = self._next(until_s)
            if words is None:
                raise ChildProcessError("the process that has collected the tests ended")
            if "fork" in words:
                self._tree.fork = words["fork"]
            elif "planted" in words:
                run = None
            elif "failed" in words:
                run = Run(1, words["failed"]) if words["failed"] else Run(0, "")
                until_s = time.monotonic() + TO_TEAR_DOWN_S
            elif "late" in words:
                run = Run(None, "") if run is not None and run.status == -1 else run
                until_s = None
                self._kill_fork()
            elif "ended" in words:
                # What tests have started may outlive the fork.
                self._kill_fork()
                self._tree.fork = None
                return run

    def _next(self, until_s: float | None) -> dict[str, Any] | None:
        """The next message; None where nothing more will come."""
        while b"\n" not in self._unread:
            left_s = None if until_s is None else max(until_s - time.monotonic(), 0)
            if not select.select([self._answers], [], [], left_s)[0]:
                return {"late": True}
            read = os.read(self._answers, 1 << 16)
            if not read:
                return None
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        words: dict[str, Any] = json.loads(line)
        return words

    def _kill_fork(self) -> None:
        if self._tree.fork is not None:
            kill_session(self._tree.fork)
