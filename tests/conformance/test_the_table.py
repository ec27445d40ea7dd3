"""The table of `make conformance` says what became of each client in each scenario."""

from __future__ import annotations

import pytest

from harness.conformance_table import CLIENT_AND_SCENARIO, Table


def report(client: str, scenario: str, outcome: str, when: str = "call", reason: object = None) -> pytest.TestReport:
    properties = [(CLIENT_AND_SCENARIO, (client, scenario))]
    return pytest.TestReport("id", ("file", 1, ""), {}, outcome, reason, when, user_properties=properties)  # type: ignore[arg-type]


def test_worst_end_of_a_scenario_is_shown_and_what_was_not_run_says_why():
    table = Table()
    for ended in (
        report("go", "reads", "passed", "setup"),
        report("go", "reads", "passed"),
        report("java", "reads", "passed"),
        report("java", "reads", "failed"),
        report("java", "writes", "failed", "setup"),
        report("go", "writes", "skipped", "setup", ("file", 1, "Skipped: not run: there is no Go")),
        report("tools", "administers", "passed"),
    ):
        table.add(ended)
    assert table.lines() == [
        "go       java",
        "pass     FAIL 1/2  reads",
        "not run  FAIL      writes",
        "",
        "tools",
        "pass   administers",
        "",
        "not run: go, writes: there is no Go",
    ]
