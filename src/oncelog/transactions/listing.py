"""Which transactions an operator asked to see: the filters of ListTransactions."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from oncelog.coordination.names import matching, regex_problem
from oncelog.transactions.answers import ListedTransaction
from oncelog.transactions.state import TransactionMetadata, TransactionStatus
from oncelog.wire import ErrorCode


def listing(
    transactions: Iterable[TransactionMetadata],
    now_ms: int,
    *,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    longer_than_ms: int = -1,
    id_pattern: str | None = None,
) -> ListedTransaction:
    """Keep what passes every filter. Empty collections, -1 and no pattern let everything pass.

    `states` are names as DescribeTransactions answers them; `id_pattern` must match an id as a whole. Errors:
    invalid_regular_expression.
    """
    if id_pattern and regex_problem(id_pattern) is not None:
        return ListedTransaction(ErrorCode.invalid_regular_expression)
    writers = frozenset(producer_ids)
    named = {state: TransactionStatus.from_label(state) for state in states}
    wanted = set(named.values())
    found = tuple(
        metadata
        for metadata in transactions
        if (not named or metadata.status in wanted)
        and (not writers or metadata.producer_id in writers)
        and (longer_than_ms < 0 or now_ms - metadata.start_ms > longer_than_ms)
    )
    if id_pattern:
        matched = matching(id_pattern, (metadata.transactional_id for metadata in found))
        found = tuple(metadata for metadata in found if metadata.transactional_id in matched)
    unknown = tuple(state for state, status in named.items() if status is None)
    return ListedTransaction(ErrorCode.none, unknown, found)
