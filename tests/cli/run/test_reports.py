"""What `oncelog run` shows on a terminal; how it looks on a real one is in test_run.py."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from oncelog.cli.run.reports import ProgressLine, Rate
from oncelog.client import ProducerIdentity
from oncelog.spark import BatchReport

REPORT = BatchReport(
    batch_id=4,
    is_skipped=False,
    records=500,
    size_bytes=9000,
    partitions=3,
    mode=None,
    attempts=1,
    transaction_ms=12.4,
    total_ms=2000.0,
    identity=ProducerIdentity(7, 9),
    input_offsets=1000,
    lag=12_345,
)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def screen():
    return Console(file=io.StringIO(), width=120)


@pytest.fixture
def line(screen, clock):
    return ProgressLine(screen, clock)


def text(line):
    return line.__rich__().plain


def test_rates_are_those_of_the_last_seconds(line, clock):
    assert text(line) == "no micro-batch yet"
    line.batch(REPORT)
    assert text(line) == "micro-batch 4  in 500/s  out 250/s  lag 12,345  transaction 12 ms  attempts 1  epoch 9"
    clock.now += 3
    line.batch(replace(REPORT, batch_id=5, lag=None))
    assert text(line).startswith("micro-batch 5  in 400/s  out 200/s  lag 12,345 ")
    line.lag(7)
    clock.now += 7
    assert " in 200/s  out 100/s  lag 7 " in text(line)
    clock.now += 20
    assert " in 0/s  out 0/s  lag 7 " in text(line)


def test_lag_that_nobody_knows_is_not_made_up(line):
    line.batch(replace(REPORT, input_offsets=None, lag=None))
    assert text(line).startswith("micro-batch 4  in 0/s  out 250/s  lag ? ")


def test_micro_batches_out_of_the_ordinary_have_lines_of_their_own(line, screen):
    with line:
        line.batch(replace(REPORT, batch_id=3, is_skipped=True, records=0))
        line.batch(REPORT)
        line.batch(replace(REPORT, batch_id=5, attempts=2))
    assert screen.file.getvalue().splitlines()[:2] == [
        "micro-batch 3: committed before the restart, skipped",
        "micro-batch 5: 500 records to 3 partitions in 2000 ms, transaction 12 ms, 2 attempts",
    ]


def test_line_of_the_last_micro_batch_is_left_on_the_screen(line, screen):
    def interrupted():
        with line:
            line.batch(replace(REPORT, attempts=2))
            line.batch(REPORT)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert (
        screen.file.getvalue().splitlines()[-1]
        == "micro-batch 4: 500 records to 3 partitions in 2000 ms, transaction 12 ms"
    )


def test_nothing_is_left_where_nothing_was_written(line, screen):
    with line:
        pass
    assert "micro-batch " not in screen.file.getvalue().replace("no micro-batch yet", "")


def test_rate_of_nothing_is_zero():
    assert Rate().per_second(5.0) == 0.0
