"""Names of files and directories of a log: what each says, and what is no such name."""

from __future__ import annotations

from uuid import UUID

import pytest

from oncelog.log.names import (
    deleted_directory,
    future_directory,
    future_partition_of,
    has_room_for,
    moved,
    moves_in,
    offset_name,
    offset_of,
    partition_of,
)

ID = UUID(int=7)


def test_directory_of_a_future_log_says_its_partition() -> None:
    assert future_directory("orders", 12, ID) == f"orders-12.{ID.hex}-future"
    assert future_partition_of(future_directory("orders", 12, ID)) == 12
    assert future_partition_of(future_directory("t" * 249, 12, ID)) == 12


@pytest.mark.parametrize(
    "name",
    [
        "orders-12",
        f"orders.{ID.hex}-future",
        f"orders-12.{ID.hex}",
        f"orders-12.{ID.hex[1:]}-future",
        f"orders-12.{ID.hex}0-future",
        f"orders-x.{ID.hex}-future",
        deleted_directory("orders", 12, ID),
    ],
)
def test_other_directories_are_no_future_log(name: str) -> None:
    assert future_partition_of(name) is None


def test_long_topic_is_cut_so_that_a_file_system_takes_the_name() -> None:
    """LocalLog.logDirNameWithSuffixCappedLength: 255 in all."""
    for name in (future_directory("t" * 249, 0, ID), deleted_directory("t" * 249, 0, ID)):
        assert len(name) == 255
    assert deleted_directory("orders", 0, ID) == f"orders-0.{ID.hex}-delete"


@pytest.mark.parametrize(
    ("topic_length", "partition_count", "fits"),
    [
        (249, 100_000, True),
        (249, 100_001, False),
        (250, 10_000, True),
        (253, 10, True),
        (253, 11, False),
    ],
)
def test_topic_has_room_where_its_last_partition_has_a_name(
    topic_length: int, partition_count: int, *, fits: bool
) -> None:
    assert has_room_for("t" * topic_length, partition_count) is fits


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("orders-0", ("orders", 0)),
        ("a-b-12", ("a-b", 12)),
        ("-3", None),
        ("orders", None),
        ("orders-", None),
        ("orders-x", None),
        ("orders-\u0663", None),
    ],
)
def test_partition_is_after_the_last_hyphen(name: str, found: tuple[str, int] | None) -> None:
    assert partition_of(name) == found


@pytest.mark.parametrize(
    "name",
    [
        "12.log",
        "0000000000000000012.log",
        "000000000000000000012.log",
        "0000000000000000001x.log",
        "\u0660" * 20 + ".log",
        offset_name(12, ".index"),
    ],
)
def test_file_of_a_segment_has_twenty_digits_and_its_ending(name: str) -> None:
    assert offset_of(name, ".log") is None
    assert offset_of(offset_name(12, ".log"), ".log") == 12


def test_partition_was_moved_as_often_as_the_largest_number_says() -> None:
    assert moves_in([]) == 0
    assert moves_in(["leader-epoch-checkpoint", moved(2), moved(10), "oncelog-moved-x", offset_name(99, ".log")]) == 10
