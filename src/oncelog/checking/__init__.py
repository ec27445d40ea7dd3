"""Judges of the output of a log: `check` finds anomalies in a history, `compare` compares an output with its input.

Both are given the records that were seen. Neither opens a file nor asks a broker.
"""

from __future__ import annotations

from oncelog.checking.anomalies import CheckReport, Findings
from oncelog.checking.comparison import Comparison, Misplaced, Sighting, compare
from oncelog.checking.cycles import find_cycles
from oncelog.checking.evidence import Evidence
from oncelog.checking.history import History
from oncelog.checking.positions import find_in_polls, find_in_sends
from oncelog.checking.records import find_conflicts, find_missing, find_wrong_reads

EXAMPLES_MAX = 5


def check(history: History, *, examples_max: int = EXAMPLES_MAX) -> CheckReport:
    """Find all anomalies; time and memory grow with the number of micro-operations and polled records."""
    evidence, findings = Evidence(history), Findings(examples_max)
    for find in (find_conflicts, find_wrong_reads, find_missing, find_in_polls, find_in_sends, find_cycles):
        find(evidence, findings)
    operations = sum(1 for _ in history.operations)
    return findings.report(operations, is_unseen_judged=evidence.has_final_phase, cut_off=history.cut_off)


__all__ = ["Comparison", "Misplaced", "Sighting", "check", "compare"]
