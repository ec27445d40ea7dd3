"""The documentation page of the transaction states, written from the transition table."""

from __future__ import annotations

from oncelog.transactions.state import DEAD, EMPTY, TRANSITIONS, TransactionStatus

_MEANINGS = {
    TransactionStatus.EMPTY: "A producer has the id, and has begun nothing with it.",
    TransactionStatus.ONGOING: "At least one partition, or one group's offsets, is in the open transaction.",
    TransactionStatus.PREPARE_COMMIT: "The transaction is committed, whatever happens. Its markers are being written.",
    TransactionStatus.PREPARE_ABORT: "The transaction is aborted, whatever happens. Its markers are being written.",
    TransactionStatus.COMPLETE_COMMIT: "Every commit marker is written. The next transaction can begin.",
    TransactionStatus.COMPLETE_ABORT: "Every abort marker is written. The next transaction can begin.",
    TransactionStatus.DEAD: "The id is being forgotten. Never in the log: a record without a value says it.",
    TransactionStatus.PREPARE_EPOCH_FENCE: "The coordinator ends the transaction itself, epoch first. Never in the log.",
}

_INTRODUCTION = """\
# Transaction states

What a transactional id can be doing. The numbers are those of the `__transaction_state` log, the names those that
DescribeTransactions and ListTransactions answer. A move that is not in the diagram cannot happen: a request that asks
for one gets an error.

This page is generated from the transition table in `oncelog.transactions.state`.
"""

_CLOSING = """\
While a transaction is in one of the two Prepare states, and while a record about its id is on the way to the log, every
other request for the id is answered `CONCURRENT_TRANSACTIONS`, which clients retry.
"""


def page() -> str:
    """The whole page, in Markdown."""
    return "\n".join((_INTRODUCTION, state_diagram(), state_table(), _CLOSING))


def state_diagram() -> str:
    edges = [f"    [*] --> {EMPTY.label}: InitProducerId of an unknown id"]
    edges += (f"    {before.label} --> {after.label}: {reason}" for (before, after), reason in TRANSITIONS.items())
    edges.append(f"    {DEAD.label} --> [*]")
    return "\n".join(("```mermaid", "stateDiagram-v2", *edges, "```", ""))


def state_table() -> str:
    rows = [f"| {status.value} | {status.label} | {_MEANINGS[status]} |" for status in TransactionStatus]
    return "\n".join(("| number | name | meaning |", "|---|---|---|", *rows, ""))
