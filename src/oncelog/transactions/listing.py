"""Which transactions an operator asked to see: the filters of ListTransactions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from oncelog.transactions.answers import ListedTransaction
from oncelog.transactions.state import TransactionMetadata, TransactionStatus
from oncelog.wire import ErrorCode


def listing(
    transactions: Iterable[TransactionMetadata],
    now_ms: int,
    *,
    states: Collection[str],
    producer_ids: Collection[int],
    longer_than_ms: int,
    id_pattern: str | None,
) -> ListedTransaction:
    """Keep what passes every filter. Empty collections, -1 and no pattern let everything pass.

    `states` are names as DescribeTransactions answers them; `id_pattern` must match an id as a whole.
    """
    try:
        pattern = re.compile(id_pattern) if id_pattern else None
    except re.error:
        return ListedTransaction(ErrorCode.invalid_regular_expression)
    named = {state: TransactionStatus.from_label(state) for state in states}
    wanted = set(named.values())
    found = tuple(
        metadata
        for metadata in transactions
        if (not named or metadata.status in wanted)
        and (not producer_ids or metadata.producer_id in producer_ids)
        and (longer_than_ms < 0 or now_ms - metadata.start_ms > longer_than_ms)
        and (pattern is None or pattern.fullmatch(metadata.transactional_id))
    )
    unknown = tuple(state for state, status in named.items() if status is None)
    return ListedTransaction(ErrorCode.none, unknown, found)
