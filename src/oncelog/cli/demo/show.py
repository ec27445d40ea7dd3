"""The table at the end of the demo."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.cli.demo.column import Column
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
RUN_ROWS = {
    "driver_kills": "driver killed with -9",
    "broker_kills": "broker killed with -9",
    "unplanned_restarts": "driver ended by itself and was started again",
}
FOOTNOTE = (
    "* Plain writes are never aborted: counted for them are records of attempts that a later attempt of the same "
    "micro-batch repeated."
)


def print_columns(columns: Sequence[Column]) -> None:
    counts = as_json(columns)
    rows = [
        {"": title, **{heading: column[name] for heading, column in counts.items()}}
        for name, title in (TALLY_ROWS | RUN_ROWS).items()
    ]
    print_table(("", *counts), rows)
    print(FOOTNOTE)


def as_json(columns: Sequence[Column]) -> dict[str, dict[str, int]]:
    """The same counts for a script."""
    return {
        column.settled.guarantee.value: {
            **{name: getattr(column.tally, name) for name in TALLY_ROWS},
            **{name: getattr(column.settled, name) for name in RUN_ROWS},
        }
        for column in columns
    }
