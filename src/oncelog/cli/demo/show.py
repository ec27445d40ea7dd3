"""The table at the end of the demo."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.cli.demo.column import Column
from oncelog.cli.tables import print_table

ROWS = {
    "expected": "records expected",
    "lost": "lost",
    "duplicated": "duplicated",
    "unexpected": "other than expected",
    "out_of_order": "out of order",
    "aborted_seen": "aborted records seen by a concurrent read_committed reader *",
    "partial_batches": "micro-batches only partly visible once settled",
}
FOOTNOTE = (
    "* Plain writes are never aborted: counted for them are records of attempts that a later attempt of the same "
    "micro-batch repeated."
)


def print_columns(columns: Sequence[Column]) -> None:
    rows: list[dict[str, object]] = [
        {"": title, **{column.settled.guarantee.value: getattr(column.tally, name) for column in columns}}
        for name, title in ROWS.items()
    ]
    rows.append(
        {
            "": "driver killed with -9",
            **{column.settled.guarantee.value: column.settled.driver_kills for column in columns},
        }
    )
    rows.append(
        {
            "": "broker killed with -9",
            **{column.settled.guarantee.value: column.settled.broker_kills for column in columns},
        }
    )
    rows.append(
        {
            "": "driver ended by itself and was started again",
            **{column.settled.guarantee.value: column.settled.unplanned_restarts for column in columns},
        }
    )
    print_table(("", *(column.settled.guarantee.value for column in columns)), rows)
    print(FOOTNOTE)


def as_json(columns: Sequence[Column]) -> dict[str, dict[str, int]]:
    """The same counts for a script."""
    return {
        column.settled.guarantee.value: {
            **{name: getattr(column.tally, name) for name in ROWS},
            "driver_kills": column.settled.driver_kills,
            "broker_kills": column.settled.broker_kills,
            "unplanned_restarts": column.settled.unplanned_restarts,
        }
        for column in columns
    }
