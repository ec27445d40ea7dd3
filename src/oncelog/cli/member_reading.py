"""`oncelog consume --group`: print records as a member of a group, and commit them once they are printed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from oncelog.cli.reading import POLL_MS, check_is_there
from oncelog.client import Client, CommitFailed, ConsumedRecord, Consumer, TopicDescription, TopicPartition

RECORDS_MAX = 500


def print_as_member(
    client: Client,
    consumer: Consumer,
    topic: TopicDescription,
    ends: Mapping[TopicPartition, int] | None,
    count: int | None,
    render: Callable[[ConsumedRecord], bytes],
) -> None:
    """Print until the ends of the member's partitions are reached, `count` records are printed, or for ever.

    Raises CommandError where the topic is not there any more, to whose ends it was to be read.
    """
    left = count
    while left != 0 and not (ends is not None and _is_at(consumer, ends)):
        records = consumer.poll(POLL_MS, records_max=RECORDS_MAX if left is None else min(left, RECORDS_MAX))
        for record in records:
            sys.stdout.buffer.write(render(record) + b"\n")
        # Whoever reads the output has it before the group does not give it to anybody any more.
        sys.stdout.buffer.flush()
        if records:
            _commit(consumer)
        elif ends is not None:
            check_is_there(client, topic)
        if left is not None:
            left -= len(records)


def _is_at(consumer: Consumer, ends: Mapping[TopicPartition, int]) -> bool:
    """Whether this member has partitions, and has read them to the ends. One without partitions waits for some."""
    partitions = consumer.assignment
    return bool(partitions) and all(consumer.position(one) >= ends.get(one, 0) for one in partitions)


def _commit(consumer: Consumer) -> None:
    try:
        consumer.commit()
    except CommitFailed as failed:
        print(
            f"oncelog: {failed}; what was printed last is printed once more by whoever reads it next", file=sys.stderr
        )
