"""A plugin of pytest that prints what each client did in each scenario: `make conformance`.

The client is the parameter `client` or `subscribe` of a test, or the marker `client` of its module; the scenario is the
name of the test. A test against Apache Kafka is left out: the table is about our broker.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from harness.requirements import NOT_RUN

CLIENT_AND_SCENARIO = "client and scenario"
NO_CLIENT = "requests as such"
ON_A_CLUSTER = ", three brokers"
PASSED, FAILED, SKIPPED = "pass", "FAIL", "not run"
COLUMN_GAP = "  "


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if params.get("log") == "kafka":
            continue
        marker = item.get_closest_marker("client")
        client = params.get("client") or params.get("subscribe") or (marker.args[0] if marker else NO_CLIENT)
        name = item.originalname if isinstance(item, pytest.Function) else item.name
        scenario = name.removeprefix("test_").replace("_", " ")
        if params.get("log") == "cluster":
            scenario += ON_A_CLUSTER
        item.user_properties.append((CLIENT_AND_SCENARIO, (client, scenario)))


class Table:
    """How often each client came to which end in each scenario, and why something was not run."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._reasons: dict[tuple[str, str], str] = {}

    def add(self, report: pytest.TestReport) -> None:
        """A report is one of up to three on a test: what went before it and after it counts where it failed."""
        for name, value in report.user_properties:
            if name != CLIENT_AND_SCENARIO:
                continue
            client, scenario = map(str, value)  # type: ignore[call-overload]
            if report.failed:
                self._ends[client, scenario][FAILED] += 1
            elif report.skipped:
                self._ends[client, scenario][SKIPPED] += 1
                said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
                self._reasons[client, scenario] = said.removeprefix("Skipped: ").removeprefix(NOT_RUN)
            elif report.when == "call":
                self._ends[client, scenario][PASSED] += 1

    def lines(self) -> list[str]:
        """Scenarios of several clients as a table, those of one client as a list, then what was not run and why."""
        clients_of: dict[str, set[str]] = defaultdict(set)
        for client, scenario in self._ends:
            clients_of[scenario].add(client)
        shared = sorted(scenario for scenario, clients in clients_of.items() if len(clients) > 1)
        columns = sorted({client for scenario in shared for client in clients_of[scenario]})
        lines = self._rows(columns, shared)
        for client in sorted({client for clients in clients_of.values() for client in clients}):
            alone = sorted(scenario for scenario, clients in clients_of.items() if clients == {client})
            lines += ["", *self._rows([client], alone)] if alone else []
        reasons = sorted(f"{SKIPPED}: {client}, {scenario}: {why}" for (client, scenario), why in self._reasons.items())
        return [*lines, "", *reasons] if reasons else lines

    def _rows(self, columns: list[str], scenarios: list[str]) -> list[str]:
        """A column for each client and, last, the names of the scenarios."""
        rows = [[*columns, ""]]
        rows += [[*(self._cell(column, scenario) for column in columns), scenario] for scenario in scenarios]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        return [
            COLUMN_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        ]

    def _cell(self, client: str, scenario: str) -> str:
        """The worst of its ends, and of how many tests, where they differ."""
        ends = self._ends.get((client, scenario), Counter())
        for end in (FAILED, SKIPPED, PASSED):
            if ends[end]:
                return end if ends[end] == ends.total() else f"{end} {ends[end]}/{ends.total()}"
        return ""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    table = Table()
    for outcome in ("passed", "skipped", "failed", "error"):
        for report in terminalreporter.getreports(outcome):
            table.add(report)
    terminalreporter.section("clients and scenarios")
    for line in table.lines():
        terminalreporter.line(line)
