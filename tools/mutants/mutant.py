"""One small change in one file of the source."""

from __future__ import annotations

import difflib
import hashlib
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    COMPARISON = "comparison turned"
    OFF_BY_ONE = "off by one"
    AND_OR = "and/or"
    NOT = "not"
    LEFT_OUT = "left out"
    EXCHANGED = "exchanged"
    CONSTANT = "constant"
    RETURNED = "returned"


class Mutant(NamedTuple):
    path: str
    """From the root of the tree."""
    kind: Kind
    start: int
    end: int
    """The bytes of the file that the change takes the place of."""
    replacement: bytes
    first_line: int
    last_line: int
    """The lines that run when the changed code runs: one of them at least."""
    runs_at_import: bool
    """Once, before any test: every test of the file may tell."""
    id: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.replacement + source[self.end :]

    def line(self, source: bytes) -> int:
        return source[: self.start].count(b"\n") + 1

    def diff(self, source: bytes) -> str:
        before, after = source.decode().splitlines(), self.applied(source).decode().splitlines()
        lines = difflib.unified_diff(before, after, self.path, self.path, lineterm="", n=1)
        return "\n".join(lines)


def identity(*parts: object) -> str:
    """The same wherever the code stands in its file, so that a change elsewhere leaves it what it is."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:10]


def drawn(mutants: list[Mutant], seed: int, count: int) -> list[Mutant]:
    """The first `count` in an order that the seed decides: a longer draw begins with the shorter one."""
    return sorted(mutants, key=lambda mutant: identity(seed, mutant.id))[:count]
