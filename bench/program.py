"""What all programs have in common: arguments, runs that take turns, one table at the end."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest
from rich.console import Console

from bench.measure import Measure, Side, Table
from bench.nodes import Topics, new_node
from bench.report import as_json, as_table
from harness.processes import BrokerProcess

WIDTH = 120
"""How wide a table may be where there is no terminal."""

QUICK_SHARE = 50
"""A quick run does this much less than a whole one."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done: every figure the median of several long runs, or one short run to see that it works."""

    is_quick: bool
    runs: int

    def amount(self, whole: int) -> int:
        """How many records, samples or milliseconds, of so many in a whole run."""
        return max(1, whole // QUICK_SHARE) if self.is_quick else whole


class Program(ABC):
    """One load, run on each side in turn: ours, peer, peer, ours. The first of two was up to a tenth slower, whoever it was.

    What a program needs for all its runs it enters into `resources`, which are freed when the last run is over.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    peer: ClassVar[str | None]
    """What stands beside us; None where nothing does."""
    measures: ClassVar[tuple[Measure, ...]]
    notes: ClassVar[tuple[str, ...]] = ()
    has_warm_up: ClassVar[bool] = False
    settings: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """What both brokers are given beyond their defaults."""

    def __init__(self, effort: Effort, scratch: Path, resources: ExitStack) -> None:
        self.effort = effort
        self.scratch = scratch
        self.resources = resources
        self.nodes: dict[Side, BrokerProcess] = {}
        self.topics: dict[Side, Topics] = {}

    def open(self, side: Side) -> None:
        """Get ready what all runs of a side need: a broker that runs until the program ends."""
        self.nodes[side] = new_node(side, self.scratch / side.value, self.settings)
        self.nodes[side].start()
        self.resources.callback(self.nodes[side].kill)
        self.topics[side] = Topics(self.nodes[side].bootstrap_servers)

    @abstractmethod
    def run(self, side: Side) -> Mapping[str, float]:
        """Take the measures once."""


ProgramClass = Callable[[Effort, Path, ExitStack], Program]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A program, the figures it found, and why one side has none, if that is so."""

    program: Program
    table: Table
    missing: str | None


def measure(kind: ProgramClass, effort: Effort, sides: Sequence[Side], console: Console) -> Outcome:
    """Run a program. A side the machine has no means for is left out, with the reason."""
    with tempfile.TemporaryDirectory(prefix="oncelog-bench-") as scratch, ExitStack() as resources:
        program = kind(effort, Path(scratch), resources)
        table, missing = Table(program.measures), None
        ready = []
        for side in sides if program.peer else [Side.OURS]:
            try:
                program.open(side)
            except pytest.skip.Exception as reason:
                missing = str(reason)
            else:
                ready.append(side)
        warm_up_runs = 1 if program.has_warm_up and not effort.is_quick else 0
        for number in range(-warm_up_runs, effort.runs):
            for side in ready if number % 2 == 0 else ready[::-1]:
                counted = f"run {number + 1} of {effort.runs}" if number >= 0 else "to warm up"
                with console.status(f"{program.title}: {_side_name(program, side)}, {counted}"):
                    found = program.run(side)
                if number >= 0:
                    table.add(side, found)
    return Outcome(program, table, missing)


def main(kinds: Sequence[ProgramClass], argv: Sequence[str] | None = None) -> None:
    """Run programs and print their tables."""
    arguments = _arguments().parse_args(argv)
    effort = Effort(arguments.quick, 1 if arguments.quick else arguments.runs)
    sides = [Side.OURS] if arguments.without_peer else list(Side)
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    console.print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.2f} before the first run")
    found: list[dict[str, Any]] = []
    for kind in kinds:
        outcome = measure(kind, effort, sides, console)
        _show(outcome, effort, console)
        found.append(as_json(outcome.program.name, outcome.program.peer, outcome.table))
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(found, indent=1) + "\n")


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Figures beside a peer's, medians of several runs that take turns.")
    parser.add_argument("--quick", action="store_true", help="one short run, to see that everything works")
    parser.add_argument("--runs", type=int, default=3, help="counted runs of each side (default: 3)")
    parser.add_argument("--without-peer", action="store_true", help="only our own figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to a file")
    return parser


def _show(outcome: Outcome, effort: Effort, console: Console) -> None:
    program = outcome.program
    title = f"{program.title} ({'one short run' if effort.is_quick else f'medians of {effort.runs} runs'})"
    console.print(as_table(title, program.peer, outcome.table))
    for note in program.notes:
        console.print(f"  {note}")
    if outcome.missing is not None:
        console.print(f"  no figures of {program.peer}: {outcome.missing}")
    console.print()


def _side_name(program: Program, side: Side) -> str:
    return program.peer if side is Side.PEER and program.peer else side.value
