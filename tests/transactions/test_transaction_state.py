from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.transactions.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    TRANSITIONS,
    TransactionStatus,
    is_legal,
    page,
)

PREDECESSORS = {
    EMPTY: {EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT},
    ONGOING: {ONGOING, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT},
    PREPARE_COMMIT: {ONGOING},
    PREPARE_ABORT: {ONGOING, PREPARE_EPOCH_FENCE, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT},
    COMPLETE_COMMIT: {PREPARE_COMMIT},
    COMPLETE_ABORT: {PREPARE_ABORT},
    DEAD: {EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT},
    PREPARE_EPOCH_FENCE: {ONGOING},
}


@pytest.mark.parametrize("after", TransactionStatus)
@pytest.mark.parametrize("before", TransactionStatus)
def test_a_move_is_legal_exactly_where_its_predecessor_is_named(
    before: TransactionStatus, after: TransactionStatus
) -> None:
    """KIP-98 §Transaction states, and the abort of an empty transaction (KIP-890)."""
    assert is_legal(before, after) == (before in PREDECESSORS[after])


def test_every_edge_says_what_moves_along_it() -> None:
    assert all(TRANSITIONS.values())


LABELS = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


@pytest.mark.parametrize(("number", "label"), list(enumerate(LABELS)))
def test_numbers_and_names_are_those_of_the_protocol(number: int, label: str) -> None:
    assert TransactionStatus(number).label == label
    assert TransactionStatus.from_label(label) is TransactionStatus(number)


def test_a_name_of_no_state_is_none() -> None:
    assert TransactionStatus.from_label("Committed") is None


PAGE = Path(__file__).parents[2] / "docs" / "transaction-states.md"
REWRITE = "from oncelog.transactions.state import page; print(page(), end='')"


def test_the_page_in_docs_is_the_one_the_table_gives() -> None:
    assert PAGE.read_text() == page(), f"the transition table changed; what rewrites the page: {REWRITE}"


def test_every_move_of_the_table_is_an_arrow() -> None:
    for before, after in TRANSITIONS:
        assert f"    {before.label} --> {after.label}: " in page()
