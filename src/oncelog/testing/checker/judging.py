"""Judges a history: every anomaly, how often, and the first few of each."""

from __future__ import annotations

from oncelog.testing.checker.anomalies import CheckReport, Findings
from oncelog.testing.checker.cycles import find_cycles
from oncelog.testing.checker.evidence import Evidence
from oncelog.testing.checker.history import History
from oncelog.testing.checker.positions import find_in_polls, find_in_sends
from oncelog.testing.checker.records import find_conflicts, find_missing, find_wrong_reads

EXAMPLES_MAX = 5


def check(history: History, *, examples_max: int = EXAMPLES_MAX) -> CheckReport:
    """Find all anomalies; time and memory grow with the number of micro-operations and polled records."""
    evidence, findings = Evidence(history), Findings(examples_max)
    for find in (find_conflicts, find_wrong_reads, find_missing, find_in_polls, find_in_sends, find_cycles):
        find(evidence, findings)
    operations = sum(1 for _ in history.operations)
    return findings.report(operations, is_unseen_judged=evidence.has_final_phase, cut_off=history.cut_off)
