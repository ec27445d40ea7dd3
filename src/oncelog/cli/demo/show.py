"""The table at the end of the demo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncelog.cli.demo.brokers import ClusterState
from oncelog.cli.demo.column import Column
from oncelog.cli.demo.kills import Victim
from oncelog.cli.demo.performance import Performance
from oncelog.cli.tables import print_table

TALLY_ROWS = {
    "expected": "records expected",
    "lost": "lost",
    "duplicated": "duplicated",
    "unexpected": "other than expected",
    "out_of_order": "out of order",
    "aborted_seen": "aborted records seen by a concurrent read_committed reader *",
    "partial_batches": "micro-batches only partly visible once settled",
}
UNPLANNED_RESTARTS = "unplanned_restarts"
UNPLANNED_RESTARTS_TITLE = "driver ended by itself and was started again"
FOOTNOTE = (
    "* Plain writes are never aborted: counted for them are records of attempts that a later attempt of the same "
    "micro-batch repeated."
)


def print_performance(performance: Performance) -> None:
    columns = performance.columns
    counts = {column.settled.guarantee.value: _counts(column) for column in columns}
    titles = TALLY_ROWS | {_name(victim): f"{victim.value} killed with -9" for victim in _victims(columns)}
    titles[UNPLANNED_RESTARTS] = UNPLANNED_RESTARTS_TITLE
    rows = [
        {"": title, **{heading: column.get(name, 0) for heading, column in counts.items()}}
        for name, title in titles.items()
    ]
    print_table(("", *counts), rows)
    print(FOOTNOTE)
    if performance.cluster is not None:
        _print_cluster(performance.cluster)


def as_json(performance: Performance) -> dict[str, object]:
    """The same for a script."""
    found: dict[str, object] = {column.settled.guarantee.value: _counts(column) for column in performance.columns}
    cluster = performance.cluster
    if cluster is not None:
        found["cluster"] = {
            "seed": cluster.seed,
            "under_replicated": cluster.under_replicated,
            "offline": cluster.offline,
            "resident_bytes": dict(cluster.resident_bytes),
        }
    return found


def _print_cluster(cluster: ClusterState) -> None:
    print()
    print_table(
        ("under_replicated", "offline"), [{"under_replicated": cluster.under_replicated, "offline": cluster.offline}]
    )
    print()
    rows = [{"member": name, "resident_MB": round(size / 1e6)} for name, size in cluster.resident_bytes.items()]
    print_table(("member", "resident_MB"), rows)
    print()
    print(f"seed {cluster.seed}")


def _counts(column: Column) -> Mapping[str, int]:
    return {
        **{name: getattr(column.tally, name) for name in TALLY_ROWS},
        **{_name(victim): count for victim, count in column.settled.kills.items()},
        UNPLANNED_RESTARTS: column.settled.unplanned_restarts,
    }


def _victims(columns: Sequence[Column]) -> list[Victim]:
    """Those of any column, in the order of their definition."""
    killed = {victim for column in columns for victim in column.settled.kills}
    return [victim for victim in Victim if victim in killed]


def _name(victim: Victim) -> str:
    return f"{victim.name.lower()}_kills"
