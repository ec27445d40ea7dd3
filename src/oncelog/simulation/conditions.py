"""What a run draws beside its faults: settings. Numbers of the code are in `constants.py`."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

COLLECTED_AFTER = 100_000


@contextmanager
def few_collections() -> Iterator[None]:
    """What a run makes it keeps until its end: to look for garbage all the time costs a tenth of it, and finds little."""
    before = gc.get_threshold()
    gc.set_threshold(COLLECTED_AFTER, before[1], before[2])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def transaction_version(random: Random) -> int:
    """Which generation of the transaction protocol clients speak: now and then the first."""
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
