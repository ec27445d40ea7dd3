"""Figures as a table for people, and as JSON for programs."""

from __future__ import annotations

from typing import Any

from rich.table import Table as RichTable
from rich.text import Text

from bench.measure import Figures, Measure, Side, Table, Verdict

STYLES = {Verdict.REACHED: "green", Verdict.MISSED: "red", Verdict.UNKNOWN: ""}


def as_table(title: str, peer: str | None, table: Table) -> RichTable:
    shown = RichTable(title=title, title_justify="left")
    shown.add_column("measure")
    shown.add_column("unit")
    for heading in ("oncelog", *([] if peer is None else [peer, "ratio"]), "to reach"):
        shown.add_column(heading, justify="right")
    for row in table.rows:
        theirs = [] if peer is None else [_median(row, Side.PEER), _ratio(row)]
        ours = Text(_median(row, Side.OURS), style=STYLES[row.verdict])
        shown.add_row(row.measure.name, row.measure.unit, ours, *theirs, _target(row.measure))
    return shown


def as_json(name: str, peer: str | None, table: Table) -> dict[str, Any]:
    return {"program": name, "peer": peer, "measures": [_row_as_json(row) for row in table.rows]}


def _row_as_json(row: Figures) -> dict[str, Any]:
    return {
        "name": row.measure.name,
        "unit": row.measure.unit,
        "oncelog": row.samples[Side.OURS],
        "peer": row.samples[Side.PEER],
        "oncelog_median": row.median(Side.OURS),
        "peer_median": row.median(Side.PEER),
        "ratio": row.ratio,
        "target": _target(row.measure) or None,
        "verdict": row.verdict.value,
    }


def _median(row: Figures, side: Side) -> str:
    median = row.median(side)
    return "-" if median is None else _number(median)


def _ratio(row: Figures) -> str:
    return "" if row.ratio is None else f"{row.ratio:.2f}x"


def _target(measure: Measure) -> str:
    target = measure.target
    if target is None:
        return ""
    value = f"{target.value:.2f}x the peer's" if target.is_of_ratio else _number(target.value)
    return f"{'≤' if target.is_at_most else '≥'} {value}"


def _number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
