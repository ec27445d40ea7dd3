"""How figures are judged and shown; not how large they are."""

from __future__ import annotations

import io
import os
import time

import pytest
from rich.console import Console

from bench.measure import Measure, Side, Table, Verdict, at_least, at_least_times_peer, at_most
from bench.report import as_json, as_table
from bench.transactions import percentile
from bench.usage import cpu_seconds, resident_bytes


def table_of(target, ours, peer):
    table = Table([Measure("speed", "records/s", target)])
    for side, samples in ((Side.OURS, ours), (Side.PEER, peer)):
        for sample in samples:
            table.add(side, {"speed": sample})
    return table


@pytest.mark.parametrize(
    ("target", "ours", "peer", "verdict"),
    [
        (at_least(10), [9, 11, 12], [], Verdict.REACHED),
        (at_least(10), [9, 8, 12], [], Verdict.MISSED),
        (at_most(10), [9, 11, 12], [], Verdict.MISSED),
        (at_least_times_peer(1.2), [12, 12, 12], [10, 10, 99], Verdict.REACHED),
        (at_least_times_peer(1.2), [11], [10], Verdict.MISSED),
        (at_least_times_peer(1.2), [11], [], Verdict.UNKNOWN),
        (None, [11], [10], Verdict.UNKNOWN),
    ],
)
def test_the_median_of_the_runs_is_judged(target, ours, peer, verdict):
    (row,) = table_of(target, ours, peer).rows
    assert row.verdict is verdict


def test_a_side_that_was_not_measured_is_shown_as_missing():
    table = table_of(at_least_times_peer(1.0), [1234.0], [])
    console = Console(width=120, file=io.StringIO())
    with console.capture() as shown:
        console.print(as_table("title", "peer", table))
    assert "1,234" in shown.get()
    assert "≥ 1.00x the peer's" in shown.get()
    (measure,) = as_json("name", "peer", table)["measures"]
    assert (measure["oncelog_median"], measure["peer_median"], measure["ratio"]) == (1234.0, None, None)


def test_percentiles_are_samples():
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([float(number) for number in range(100)], 0.99) == 99.0


def test_what_the_kernel_says_of_a_process_is_read():
    before, own = cpu_seconds(os.getpid()), time.process_time()
    while time.process_time() < own + 0.1:
        pass
    assert cpu_seconds(os.getpid()) - before >= 0.08
    assert resident_bytes(os.getpid()) > 1_000_000
