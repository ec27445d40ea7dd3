"""`oncelog simulate`: run the broker and the client on a simulated disk, network and clock."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from oncelog.cli.exits import ExitStatus
from oncelog.cli.options import Json, number_between
from oncelog.simulation.cluster import ClusterSimulation
from oncelog.simulation.faults import PlannedFault, minimise
from oncelog.simulation.report import Report
from oncelog.simulation.simulation import Simulation

HOUR_MS = 3_600_000
MINUTES_MIN, MINUTES_MAX = 0.05, 1_000_000
Kind = type[Simulation] | type[ClusterSimulation]


def command(
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="Run one seed.")] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="N|A..B", help="Run the seeds 1 to N, or A to B.")
    ] = None,
    minutes: Annotated[
        float,
        typer.Option(
            "--minutes",
            parser=number_between(MINUTES_MIN, MINUTES_MAX),
            metavar="MINUTES",
            help="The length of the phase with faults, in simulated time.",
        ),
    ] = 1.0,
    without: Annotated[
        str, typer.Option("--without", metavar="N,N,...", help="Leave out faults, by their numbers in the run.")
    ] = "",
    only: Annotated[
        str | None, typer.Option("--only", metavar="N,N,...", help="Leave out all other faults; - leaves out all.")
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Run a cluster of brokers over a ZooKeeper instead of one broker.")
    ] = False,
    check_determinism: Annotated[
        bool, typer.Option("--check-determinism", help="Run each seed twice, and compare what happened.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run the broker and the client through faults that a seed chooses, and check that nothing is lost or duplicated.

    The same seed is the same run. A run that fails ends the command with 1, and the command that repeats it with the fewest
    faults is printed.
    """
    simulation = ClusterSimulation if cluster else Simulation
    chosen = _seeds(seed, seeds)
    left_out = _numbers(without, "--without")
    began_s = time.perf_counter()
    reports: list[Report] = []
    for one in chosen:
        missing = left_out if only is None else _all_but(simulation(one, minutes), _numbers(only.strip("-"), "--only"))
        report = simulation(one, minutes, missing).run()
        if check_determinism:
            report = _compared(report, simulation(one, minutes, missing).run())
        reports.append(report)
        if report.failure is not None:
            break
    took_s = time.perf_counter() - began_s
    summary = _summary(reports, took_s)
    failed = reports[-1] if reports[-1].failure is not None else None
    if as_json:
        print(json.dumps(summary | {"failure": None if failed is None else _failure(simulation, failed)}))
    else:
        _print(summary)
        if failed is not None:
            _print_failure(simulation, failed)
    if failed is not None:
        raise typer.Exit(ExitStatus.DIFFERENT)


def _seeds(seed: int | None, seeds: str | None) -> Sequence[int]:
    """Raises typer.BadParameter."""
    if (seed is None) == (seeds is None):
        raise typer.BadParameter("give --seed or --seeds, one of them")
    if seed is not None:
        return [seed]
    first, separator, last = (seeds or "").partition("..")
    try:
        chosen = range(int(first), int(last) + 1) if separator else range(1, int(first) + 1)
    except ValueError:
        raise typer.BadParameter("it is a number, or two with .. between them", param_hint="--seeds") from None
    if not chosen:
        raise typer.BadParameter("there is no seed in it", param_hint="--seeds")
    return chosen


def _numbers(text: str, option: str) -> frozenset[int]:
    """Raises typer.BadParameter."""
    try:
        return frozenset(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise typer.BadParameter("it is numbers with commas between them", param_hint=option) from None


def _all_but(run: Simulation | ClusterSimulation, kept: Collection[int]) -> frozenset[int]:
    return frozenset(fault.number for fault in run.faults if fault.number not in kept)


def _compared(first: Report, second: Report) -> Report:
    if first.trace == second.trace:
        return first
    return replace(first, failure=f"two runs of the same seed differ: {first.trace} and {second.trace}")


def _summary(reports: Sequence[Report], took_s: float) -> dict[str, object]:
    faults: Counter[str] = Counter()
    for report in reports:
        faults.update({kind.value: count for kind, count in report.happened.items()})
    simulated_ms = sum(report.simulated_ms for report in reports)
    events = sum(report.events for report in reports)
    return {
        "seeds": f"{reports[0].seed}..{reports[-1].seed}" if len(reports) > 1 else str(reports[0].seed),
        "runs": len(reports),
        "simulated_hours": round(simulated_ms / HOUR_MS, 3),
        "seconds": round(took_s, 1),
        "times_real_time": round(simulated_ms / 1000 / took_s),
        "events": events,
        "events_per_second": round(events / took_s),
        "transactions_committed": sum(report.committed for report in reports),
        "transactions_aborted": sum(report.aborted for report in reports),
        "transactions_unknown": sum(report.unknown for report in reports),
        "records_read": sum(report.records_seen for report in reports),
        "broker_starts": sum(report.starts for report in reports),
        "trace": reports[0].trace if len(reports) == 1 else None,
        "faults": dict(sorted(faults.items())),
    }


def _print(summary: dict[str, object]) -> None:
    faults = summary.pop("faults")
    assert isinstance(faults, dict)
    for name, value in summary.items():
        if value is not None:
            print(f"{name.replace('_', ' '):24} {value}")
    for name, count in faults.items():
        print(f"{count:10} x {name}")


def _failure(simulation: Kind, report: Report) -> dict[str, object]:
    needed = minimise(report.planned, lambda left_out: _fails(simulation, report, left_out))
    return {
        "seed": report.seed,
        "what": report.failure,
        "faults": [str(fault) for fault in needed],
        "command": _repeat(simulation, report, needed),
    }


def _fails(simulation: Kind, report: Report, left_out: Collection[int]) -> bool:
    return simulation(report.seed, report.minutes, left_out).run().failure is not None


def _again(simulation: Kind, report: Report) -> str:
    cluster = " --cluster" if simulation is ClusterSimulation else ""
    return f"oncelog simulate{cluster} --seed {report.seed} --minutes {report.minutes:g}"


def _repeat(simulation: Kind, report: Report, needed: Sequence[PlannedFault]) -> str:
    only = ",".join(str(fault.number) for fault in needed) or "-"
    return f"{_again(simulation, report)} --only {only}"


def _print_failure(simulation: Kind, report: Report) -> None:
    print(f"\nseed {report.seed} fails: {report.failure}")
    print(f"again: {_again(simulation, report)}")
    print("looking for the faults that it needs ...", flush=True)

    needed = minimise(report.planned, lambda left_out: _fails(simulation, report, left_out))
    print(f"with these alone: {_repeat(simulation, report, needed)}")
    for fault in needed:
        print(f"  {fault}")
