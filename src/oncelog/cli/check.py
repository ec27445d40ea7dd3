"""`oncelog check`: the anomalies in a history of what clients did with a log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.garbage import without_collections
from oncelog.cli.options import Json, filled_path
from oncelog.cli.tables import note, print_json, print_table, printable
from oncelog.testing.checker import (
    Anomaly,
    AnomalyFinding,
    CheckReport,
    History,
    HistoryError,
    RecordedOperation,
    check,
    read_history,
)


def command(
    histories: Annotated[
        list[Path],
        typer.Argument(parser=filled_path, metavar="HISTORY.jsonl…", help="One history, in one file or in several."),
    ],
    limit: Annotated[int, typer.Option("--limit", min=0, help="The number of examples of each anomaly to show.")] = 5,
    as_json: Json = False,
) -> None:
    """Look for anomalies in a history of operations; exit with 1 if one counts as a fault.

    A history has what clients sent to a log and polled from it, and how each operation ended. It is a file of JSON Lines, which
    docs/checker.md describes and oncelog.testing.checker.HistoryWriter records. No broker is needed.
    """
    with without_collections():
        report = check(_read(histories), examples_max=limit)
    if as_json:
        print_json(report_as_json(report))
    else:
        _print(report)
    if not report.is_sound:
        raise typer.Exit(ExitStatus.DIFFERENT)


def _read(paths: list[Path]) -> History:
    """Raises CommandError."""
    try:
        return read_history(paths)
    except HistoryError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from None
    except OSError as error:
        raise CommandError(f"cannot read {error.filename}: {error.strerror}", ExitStatus.USAGE) from None


def report_as_json(report: CheckReport) -> dict[str, object]:
    """Every anomaly with its counts, and the examples that the report has of it."""
    return {
        "sound": report.is_sound,
        "operations": report.operations,
        "unseen_judged": report.is_unseen_judged,
        "cut_off": list(report.cut_off),
        "anomalies": [
            {
                "anomaly": anomaly.label,
                "found": report.found[anomaly],
                "faults": report.faults[anomaly],
                "counts_as_a_fault": anomaly.counts_as_fault.value,
                "examples": [_as_json(example) for example in report.examples if example.anomaly is anomaly],
            }
            for anomaly in Anomaly
        ],
    }


def _as_json(example: AnomalyFinding) -> dict[str, object]:
    return {
        "fault": example.is_fault,
        "key": example.key,
        "offsets": list(example.offsets),
        "values": list(example.values),
        "operations": [_operation_as_json(operation) for operation in example.operations],
        "sentence": example.sentence,
    }


def _operation_as_json(operation: RecordedOperation) -> dict[str, object]:
    return {
        "process": operation.process,
        "ending": operation.ending.value,
        "file": operation.source or None,
        "line": operation.line,
        "time_ms": operation.time_ms,
        "note": operation.note,
    }


def _print(report: CheckReport) -> None:
    for place in report.cut_off:
        note(f"{place} is cut off, and left out")
    print_table(("anomaly", "found", "faults", "counts_as_a_fault"), [_row(report, anomaly) for anomaly in Anomaly])
    if report.examples:
        print()
    for example in report.examples:
        print(f"{example.anomaly.label}{'' if example.is_fault else ', no fault'}: {printable(example.sentence)}")


def _row(report: CheckReport, anomaly: Anomaly) -> dict[str, object]:
    is_judged = report.is_unseen_judged or anomaly is not Anomaly.UNSEEN
    return {
        "anomaly": anomaly.label,
        "found": report.found[anomaly],
        "faults": report.faults[anomaly],
        "counts_as_a_fault": anomaly.counts_as_fault.value + ("" if is_judged else "; not judged: no final phase"),
    }
