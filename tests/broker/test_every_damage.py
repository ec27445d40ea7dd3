"""Whatever one file loses of what was durable, in every way there is: a start says it, and serves the other partitions.

The cases are made from the files that a broker left; `tests/broker/test_damage.py` has those by hand, with what becomes of each.
"""

from __future__ import annotations

from itertools import islice

import pytest

from oncelog.broker.storage.journal import FILE_NAME as JOURNAL
from tests.broker.every_damage import End, Outcome, SilentError, cases, judge, killed, left_by, stopped

SHARES = 64
ENDS = pytest.mark.parametrize("end", [stopped, killed])
KINDS = {
    ".log",
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
    ".deleted",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "meta.properties",
    "oncelog-metadata.jsonl",
    "oncelog-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
}


@ENDS
def test_cases_are_of_every_kind_of_file(end: End) -> None:
    names = {case.name for case in cases(left_by(end))}
    kinds = {f".{name.rpartition('.')[2]}" if name[0].isdigit() else name for name in names}
    assert kinds >= KINDS
    assert any(name.startswith("oncelog-wal-") for name in names) == (end is killed)


@ENDS
def test_log_that_is_cut_behind_any_of_its_batches_is_offline(end: End) -> None:
    """The segment that is written to, of a log without gaps: nothing follows it that could tell."""
    left = left_by(end)
    last = max(path for path in left.files if path.startswith("/data/plain-0/") and path.endswith(".log"))
    cut = [case for case in cases(left) if case.path == last and case.what.startswith("cut at")]
    assert len(cut) > 30
    found = [judge(left, case) for case in cut]
    durable = left.durable["plain", 0]
    assert found == [Outcome.OFFLINE] * (durable - 1) + [Outcome.WHOLE] * (len(cut) - durable + 1)


@ENDS
def test_journal_that_has_lost_lines_is_refused_and_verify_finds_it(end: End) -> None:
    left = left_by(end)
    lost = [case for case in cases(left) if case.name == JOURNAL]
    assert len(lost) > 12
    assert {judge(left, case) for case in lost} == {Outcome.REFUSED}


@pytest.mark.drawn(16)
@ENDS
@pytest.mark.parametrize("share", range(SHARES))
def test_nothing_that_was_durable_is_missing_in_silence(share: int, end: End) -> None:
    left = left_by(end)
    silent = []
    for case in islice(cases(left), share, None, SHARES):
        try:
            judge(left, case)
        except SilentError as error:
            silent.append(f"{case}: {error}")
    assert not silent
