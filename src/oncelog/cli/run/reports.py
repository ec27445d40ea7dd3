"""The output of `oncelog run`: a line for each micro-batch, JSON, or, on a terminal, one line that changes."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

if TYPE_CHECKING:
    from oncelog.spark import BatchReport

RATE_SECONDS = 10.0
"""The time over which records per second are counted."""
REDRAWN_PER_SECOND = 4


def _ignore_lag(offsets: int) -> None:
    """Ignore the lag: it is no part of a line about a micro-batch."""


@dataclass(frozen=True, slots=True)
class Reports:
    """The callbacks for each micro-batch, and for the lag if the reports of micro-batches do not have it."""

    batch: Callable[[BatchReport], None]
    lag: Callable[[int], None] = _ignore_lag


def plain_reports() -> Reports:
    """A line for each micro-batch."""
    return Reports(lambda report: print(plain_line(report), flush=True))


def json_reports() -> Reports:
    """A JSON object for each micro-batch, one a line."""
    return Reports(lambda report: print(json.dumps(json_fields(report)), flush=True))


def plain_line(report: BatchReport) -> str:
    if report.is_skipped:
        return f"micro-batch {report.batch_id}: committed before the restart, skipped"
    line = (
        f"micro-batch {report.batch_id}: {report.records} records to {report.partitions} partitions "
        f"in {report.total_ms:.0f} ms, transaction {report.transaction_ms:.0f} ms"
    )
    return f"{line}, {report.attempts} attempts" if report.attempts > 1 else line


def json_fields(report: BatchReport) -> dict[str, object]:
    return {
        "batch_id": report.batch_id,
        "sequence": report.sequence,
        "skipped": report.is_skipped,
        "records": report.records,
        "size_bytes": report.size_bytes,
        "partitions": report.partitions,
        "mode": None if report.mode is None else report.mode.value,
        "attempts": report.attempts,
        "transaction_ms": round(report.transaction_ms, 1),
        "total_ms": round(report.total_ms, 1),
        "producer_id": report.identity.producer_id,
        "epoch": report.identity.epoch,
    }


@dataclass(slots=True)
class Rate:
    """Counts records per second over the last seconds."""

    since: float | None = None
    counted: deque[tuple[float, int]] = field(default_factory=deque)

    def add(self, count: int, started: float, now: float) -> None:
        if self.since is None:
            self.since = started
        self.counted.append((now, count))

    def per_second(self, now: float) -> float:
        while self.counted and self.counted[0][0] < now - RATE_SECONDS:
            self.counted.popleft()
        if self.since is None or not self.counted:
            return 0.0
        return sum(count for _, count in self.counted) / max(0.001, min(RATE_SECONDS, now - self.since))


class ProgressLine:
    """One line on a terminal, redrawn while the pipeline runs. A skipped or repeated micro-batch gets a line of its own.

    The line of the last micro-batch stays on the screen.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._live = Live(self, console=console, transient=True, refresh_per_second=REDRAWN_PER_SECOND)
        self._rate_in = Rate()
        self._rate_out = Rate()
        self._last: BatchReport | None = None
        self._lag: int | None = None

    def __enter__(self) -> ProgressLine:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
        if self._last is not None and not _is_remarkable(self._last):
            self._say(self._last)

    def batch(self, report: BatchReport) -> None:
        now = self._clock()
        started = now - report.total_ms / 1000
        self._rate_in.add(report.input_offsets or 0, started, now)
        self._rate_out.add(report.records, started, now)
        self._last = report
        if report.lag is not None:
            self._lag = report.lag
        if _is_remarkable(report):
            self._say(report)

    def lag(self, offsets: int) -> None:
        self._lag = offsets

    def _say(self, report: BatchReport) -> None:
        self._console.print(Text(plain_line(report)), soft_wrap=True)

    def __rich__(self) -> Text:
        line = Text(no_wrap=True, overflow="ellipsis")
        if self._last is None:
            return line.append("no micro-batch yet", style="dim")
        now = self._clock()
        line.append(f"micro-batch {self._last.batch_id}", style="bold")
        facts = {
            "in": f"{self._rate_in.per_second(now):,.0f}/s",
            "out": f"{self._rate_out.per_second(now):,.0f}/s",
            "lag": "?" if self._lag is None else f"{self._lag:,}",
            "transaction": f"{self._last.transaction_ms:.0f} ms",
            "attempts": str(self._last.attempts),
            "epoch": str(self._last.identity.epoch),
        }
        for name, value in facts.items():
            line.append(f"  {name} ", style="dim").append(value)
        return line


def _is_remarkable(report: BatchReport) -> bool:
    return report.is_skipped or report.attempts > 1
