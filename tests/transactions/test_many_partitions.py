"""Records of `__transaction_state` with many partitions: the format knows no bound."""

from __future__ import annotations

import pytest

from oncelog.transactions import TransactionMetadata, TransactionRecord, TransactionStatus, decode, encode
from oncelog.transactions.records import CLASSIC_VERSION, FLEXIBLE_VERSION

ONGOING = TransactionMetadata(
    transactional_id="tx-1",
    producer_id=1000,
    previous_producer_id=-1,
    next_producer_id=-1,
    producer_epoch=7,
    last_producer_epoch=-1,
    timeout_ms=60_000,
    status=TransactionStatus.ONGOING,
    partitions=frozenset(),
    start_ms=1001,
    last_update_ms=1002,
    client_transaction_version=0,
)


@pytest.mark.parametrize("version", [CLASSIC_VERSION, FLEXIBLE_VERSION])
@pytest.mark.parametrize("count", [1, 16, 17, 127, 128, 1000])
def test_record_with_many_partitions_is_read_back(version: int, count: int) -> None:
    partitions = frozenset((f"topic-{number % 7}", number) for number in range(count))
    value = ONGOING._replace(partitions=partitions)
    record = TransactionRecord("tx-1", value, value.last_update_ms)
    assert decode(encode(record, version)) == record


@pytest.mark.parametrize("version", [CLASSIC_VERSION, FLEXIBLE_VERSION])
def test_partitions_of_a_topic_are_written_in_their_order_whatever_was_added_first(version: int) -> None:
    """Two coordinators that know the same write the same bytes."""
    names = [("t", number) for number in range(40)]
    one, other = (ONGOING._replace(partitions=frozenset(order)) for order in (names, names[::-1]))
    written = {encode(TransactionRecord("tx-1", value, 1002), version).value for value in (one, other)}
    assert len(written) == 1
