"""Lines of a broker's log about the offsets of a group."""

from __future__ import annotations

from oncelog.groups.records import CommittedOffset, OffsetRecord, news_of


def offset(partition: int, committed: int | None) -> OffsetRecord:
    value = None if committed is None else CommittedOffset(committed, -1, "secret", 0)
    return OffsetRecord("shop", "orders", partition, value, 0)


def test_commit_is_one_line_with_its_first_offsets() -> None:
    assert list(news_of([offset(number, number + 5) for number in range(3)])) == [
        "offsets are committed: orders-0 at 5, orders-1 at 6, orders-2 at 7"
    ]
    assert list(news_of([offset(number, 1) for number in range(1000)])) == [
        "offsets are committed: orders-0 at 1, orders-1 at 1, orders-2 at 1 and 997 more"
    ]


def test_offset_at_the_beginning_is_one() -> None:
    assert list(news_of([offset(0, 0)])) == ["offsets are committed: orders-0 at 0"]


def test_offsets_of_a_transaction_are_not_committed_yet() -> None:
    assert list(news_of([offset(0, 5)], 7)) == ["offsets are part of the transaction of producer id 7: orders-0 at 5"]


def test_offsets_that_end_are_told_apart() -> None:
    assert list(news_of([offset(0, None), offset(1, 2)])) == [
        "offsets are committed: orders-1 at 2",
        "offsets are forgotten: orders-0",
    ]
