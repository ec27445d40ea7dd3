"""Who sends a micro-batch: tasks that share the driver's producer, or the driver itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn

from oncelog.client.values import TopicPartition
from oncelog.spark import private

DIRECT_RECORDS_MAX = 10_000
"""Up to so many records the driver collects rows and encodes them itself, whatever the query does with them."""

DIRECT_BYTES_MAX = 32 * 1024 * 1024
"""About so many encoded bytes the driver takes in as rows, where what is read says how much will be written: one job and
one worker's work less, and nothing kept or exchanged."""

DIRECT_BYTES_MAX_AFAR = 8 * 1024 * 1024
"""The same where executors are on other machines: they have more cores and connections than the driver."""

DIRECT_BYTES_MAX_COMPRESSED = 4 * 1024 * 1024
"""The same with a codec: the rows are larger than what they become, and tasks compress side by side."""

PUMP_BYTES_MAX = 1024 * 1024
"""Up to so many encoded bytes a second and a third stage cost more than sending from the driver."""

TASKS_PER_SLOT = 2
"""So many tasks read what is kept, or fewer: what is left when one is done early is small, too."""


class Mode(Enum):
    """Who sends. AUTO decides for each micro-batch."""

    AUTO = "auto"
    SHARED_PRODUCER = "shared-producer"
    DRIVER_PUMP = "driver-pump"


class ModeError(ValueError):
    """The mode that was asked for cannot work here."""


@dataclass(frozen=True, slots=True)
class Volume:
    """What a micro-batch has read and written. None stands for what is not known."""

    input_offsets: int | None
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is known of a micro-batch before it is computed.

    `is_proportional` says that it writes about as much for each record it reads as the one before: nothing that it reads
    stays in a state, to come out later and all at once.
    """

    input_offsets: int | None
    is_proportional: bool


@dataclass(frozen=True, slots=True)
class SparkFacts:
    """What decides whether a barrier stage can run: how many tasks fit at once, and whether that may change."""

    slots: int
    allocates_dynamically: bool


def spark_facts(context: Any) -> SparkFacts:
    return SparkFacts(
        slots=private.task_slots(context),
        allocates_dynamically=context.getConf().get("spark.dynamicAllocation.enabled", "false").lower() == "true",
    )


def parse_mode(text: str) -> Mode:
    try:
        return Mode(text)
    except ValueError:
        _refuse(f"mode has to be one of {', '.join(mode.value for mode in Mode)}, not {text!r}")


def check_mode(mode: Mode, facts: SparkFacts) -> None:
    """Raises ModeError when tasks are to send, and no barrier stage can run."""
    if mode is Mode.SHARED_PRODUCER and facts.allocates_dynamically:
        _refuse(
            'mode="shared-producer" needs a barrier stage, and Spark runs none with spark.dynamicAllocation.enabled; use '
            'mode="driver-pump" or "auto"'
        )


def is_local(master: str | None) -> bool:
    """Whether the tasks run in the driver's own process."""
    return master is not None and (master == "local" or master.startswith("local["))


def direct_bytes_max(master: str | None, *, is_compressed: bool) -> int:
    if is_compressed:
        return DIRECT_BYTES_MAX_COMPRESSED
    return DIRECT_BYTES_MAX if is_local(master) else DIRECT_BYTES_MAX_AFAR


def is_direct(mode: Mode, expected: Expectation, before: Volume | None, bytes_max: int) -> bool:
    """Whether the driver collects the rows themselves, because they are few or small.

    That has to be known before they are computed. Few they are when the input is small, and so was the output of the
    micro-batch before: an aggregation may give many rows for few, but not all of a sudden. Small they are when the
    micro-batch before says so, which has read at least half as much. None stands for what is not known.
    """
    if mode is Mode.SHARED_PRODUCER or expected.input_offsets is None or before is None:
        return False
    if expected.input_offsets <= DIRECT_RECORDS_MAX and before.records <= DIRECT_RECORDS_MAX:
        return True
    if not expected.is_proportional or not before.input_offsets or expected.input_offsets > 2 * before.input_offsets:
        return False
    growth = max(1.0, expected.input_offsets / before.input_offsets)
    return before.size_bytes * growth <= bytes_max


def sender(mode: Mode, facts: SparkFacts, size_bytes: int) -> Mode:
    """Who sends a micro-batch of so many encoded bytes: DRIVER_PUMP or SHARED_PRODUCER."""
    if mode is not Mode.AUTO:
        return mode
    if facts.allocates_dynamically or facts.slots < 1 or size_bytes <= PUMP_BYTES_MAX:
        return Mode.DRIVER_PUMP
    return Mode.SHARED_PRODUCER


def lanes(
    sizes: Mapping[int, int], leaders: Mapping[TopicPartition, int], partitions: Sequence[TopicPartition], slots: int
) -> dict[int, int]:
    """Which sending task each target goes to: at most `slots` tasks, about equal in bytes, few leaders each.

    A partition belongs to one task only, because sequences are counted per partition; first batches from several
    connections to one leader refuse each other for a while, so a leader is better shared by few tasks.
    """
    ordered = sorted(sizes, key=lambda target: (leaders.get(partitions[target], -1), target))
    width = max(1, min(slots, len(ordered)))
    total = sum(sizes.values()) or 1
    assigned: dict[int, int] = {}
    before = 0
    lane = 0
    for place, target in enumerate(ordered):
        is_full = before * width // total > lane
        # No lane stays empty: the targets that are left have to be enough for the lanes that are left.
        is_needed_elsewhere = len(ordered) - place < width - lane
        if place > 0 and lane < width - 1 and (is_full or is_needed_elsewhere):
            lane += 1
        assigned[target] = lane
        before += sizes[target]
    return assigned


def _refuse(message: str) -> NoReturn:
    raise ModeError(message)
