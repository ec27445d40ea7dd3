"""Who sends a micro-batch: tasks that share the driver's producer, or the driver itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn

from oncelog.client.values import TopicPartition

DIRECT_RECORDS_MAX = 10_000
"""Up to so many records the driver collects rows and encodes them itself: one job, and no Python worker."""

PUMP_BYTES_MAX = 1024 * 1024
"""Up to so many encoded bytes a second and a third stage cost more than sending from the driver."""


class Mode(Enum):
    """Who sends. AUTO decides for each micro-batch."""

    AUTO = "auto"
    SHARED_PRODUCER = "shared-producer"
    DRIVER_PUMP = "driver-pump"


class ModeError(ValueError):
    """The mode that was asked for cannot work here."""


@dataclass(frozen=True, slots=True)
class SparkFacts:
    """What decides whether a barrier stage can run: how many tasks fit at once, and whether that may change."""

    slots: int
    allocates_dynamically: bool


def spark_facts(context: Any) -> SparkFacts:
    java_context = context._jsc.sc()
    profile = java_context.resourceProfileManager().defaultResourceProfile()
    return SparkFacts(
        slots=int(java_context.maxNumConcurrentTasks(profile)),
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


def is_direct(mode: Mode, input_offsets: int | None, records_before: int | None) -> bool:
    """Whether the driver collects the rows themselves, because they are few.

    That has to be known before they are computed: the input is small, and so was the output of the micro-batch before. An
    aggregation may give many rows for few, but not all of a sudden. None stands for what is not known.
    """
    if mode is Mode.SHARED_PRODUCER or input_offsets is None or records_before is None:
        return False
    return input_offsets <= DIRECT_RECORDS_MAX and records_before <= DIRECT_RECORDS_MAX


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
