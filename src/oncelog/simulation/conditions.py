"""The conditions that a run draws: settings, and constants of the code.

Some paths are taken only after a thousand producer ids, fifty waiting requests or megabytes of a log, which no run of a minute
reaches. So a run draws small values for some of these constants.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple

from oncelog.broker import dispatch, fetching, housekeeping, slices
from oncelog.broker.coordinators import loading, producer_ids
from oncelog.broker.handlers import offset_commit
from oncelog.broker.storage import durability, log_settings, opening, partition
from oncelog.client.producer import producing
from oncelog.cluster import configs, shared_topics
from oncelog.cluster.controller import brokers, controller, partitions
from oncelog.log import index_files, producer_snapshots, scan, segment, segments
from oncelog.log.compaction import cleaned_segment, cleaning
from oncelog.records import Effort

COLLECTED_AFTER = 100_000


@contextmanager
def few_collections() -> Iterator[None]:
    """Few garbage collections: the objects of a run live until its end, and collecting takes a tenth of its time."""
    before = gc.get_threshold()
    gc.set_threshold(COLLECTED_AFTER, before[1], before[2])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def transaction_version(random: Random) -> int:
    """The generation of the transaction protocol that clients speak: now and then the first."""
    return random.choice((1, 2, 2, 2))


def broker_settings(random: Random) -> dict[str, str]:
    choices = {
        "offsets.topic.num.partitions": (1, 2),
        "transaction.state.log.num.partitions": (1, 3),
        "log.roll.ms": (300, 1_000, 10_000, 604_800_000),
        "log.index.interval.bytes": (0, 200, 4_096),
        "log.flush.offset.checkpoint.interval.ms": (1_000, 10_000, 60_000),
        "log.retention.check.interval.ms": (2_000, 300_000),
        "log.segment.delete.delay.ms": (0, 500, 60_000),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": (500, 3_000, 10_000),
        "log.cleaner.backoff.ms": (50, 500, 15_000),
        "log.cleaner.min.cleanable.ratio": (0.01, 0.5),
        "log.cleaner.delete.retention.ms": (0, 2_000, 86_400_000),
        "group.initial.rebalance.delay.ms": (0, 1_000, 3_000),
        "group.consumer.min.session.timeout.ms": (5_000,),
        "group.consumer.session.timeout.ms": (8_000, 45_000),
        "log.dir.reserve.bytes": (0, 8_192, 65_536),
        "auto.create.topics.enable": ("false",),
    }
    return {name: str(random.choice(values)) for name, values in choices.items()}


class Constant(NamedTuple):
    """`where` has it as an attribute that is looked up whenever it is used. A run has one of `values`, or else its own value."""

    where: Any
    name: str
    values: tuple[int, ...]
    own_share: int = 1
    """How often its own value is drawn for each of the others."""


CONSTANTS = (
    Constant(durability, "WRITE_AHEAD_BYTES_MAX", (5_000, 100_000)),
    Constant(durability, "TAIL_BYTES_MAX", (500, 20_000)),
    Constant(housekeeping, "SNAPSHOT_INTERVAL_BYTES", (3_000, 200_000)),
    Constant(Effort.SMALL, "size_bytes_max", (1_000,), own_share=2),
    Constant(housekeeping, "GROWTH_BYTES_MAX", (50_000,)),
    Constant(producer_snapshots, "BETWEEN_SEGMENTS_KEPT", (1,)),
    # A broker that is busy has a slice for each step: a run that fails meanwhile leaves it so.
    Constant(slices, "SLICE_MS", ()),
    # Producer ids.
    Constant(producer_ids, "BLOCK_SIZE", (1, 2)),
    Constant(producer_ids, "REFILL_BELOW", (1, 3)),
    Constant(controller, "PRODUCER_IDS_IN_A_BLOCK", (1, 2)),
    # What is done for many at once.
    Constant(partition, "WOKEN_AT_ONCE", (1, 3)),
    Constant(dispatch, "ITEMS_AT_ONCE", (1, 3)),
    Constant(offset_commit, "COMMITTED_AT_ONCE", (1, 2)),
    Constant(fetching, "GATHERING_ROUNDS", (0, 1)),
    Constant(loading, "BATCHES_OF_A_STEP", (1, 20)),
    Constant(opening, "SYNCED_AT_ONCE", (1, 3)),
    Constant(opening, "CLOSED_AT_ONCE", (1, 3)),
    Constant(shared_topics, "REACHED_AT_ONCE", (1,)),
    Constant(configs, "AT_ONCE", (1, 3)),
    Constant(partitions, "ELECTED_AT_ONCE_MAX", (1, 3)),
    Constant(partitions, "LED_AGAIN_AT_ONCE_MAX", (1, 3)),
    Constant(brokers, "STOPPED_AT_ONCE_MAX", (1, 3)),
    Constant(producing, "REQUEST_BYTES_MAX", (2_000,)),
    # How much of a log is read, kept or written at a time.
    Constant(segment, "WALK_BYTES", (300,)),
    Constant(scan, "CHUNK_BYTES", (500, 5_000)),
    Constant(scan, "HEADERS_CHUNK_BYTES", (500, 5_000)),
    Constant(segments, "POSITIONS_KEPT", (1, 3)),
    Constant(index_files, "UNWRITTEN_BYTES_MAX", (1, 60)),
    Constant(cleaning, "STEP_BYTES", (500, 5_000)),
    Constant(cleaned_segment, "SEGMENTS_MAX", (1, 3)),
)


@contextmanager
def drawn_constants(random: Random) -> Iterator[None]:
    """Afterwards all are as before."""
    before = [getattr(one.where, one.name) for one in CONSTANTS]
    coordinator_log_before = log_settings.COORDINATOR_LOG_BYTES
    for one, own in zip(CONSTANTS, before, strict=True):
        setattr(one.where, one.name, random.choice((*one.values, *[own] * one.own_share)))
    # A coordinator's log is not to hold less than what comes between two snapshots.
    log_settings.COORDINATOR_LOG_BYTES = min(housekeeping.SNAPSHOT_INTERVAL_BYTES, coordinator_log_before)
    try:
        yield
    finally:
        log_settings.COORDINATOR_LOG_BYTES = coordinator_log_before
        for one, own in zip(CONSTANTS, before, strict=True):
            setattr(one.where, one.name, own)
