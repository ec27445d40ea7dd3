"""The choice of the sender of a micro-batch: tasks that share the driver's producer, or the driver itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from oncelog.client.values import TopicPartition
from oncelog.spark import private

DIRECT_RECORDS_MAX = 10_000
"""The driver collects and encodes up to this many records itself."""

DIRECT_BYTES_MAX = 32 * 1024 * 1024
"""The driver collects rows of about this many encoded bytes where the input tells the size of the output: that saves one job and
one worker, and nothing is kept or exchanged."""

DIRECT_BYTES_MAX_AFAR = 8 * 1024 * 1024
"""The same where executors are on other machines: they have more cores and connections than the driver."""

DIRECT_BYTES_MAX_COMPRESSED = 4 * 1024 * 1024
"""The same with a codec: the rows are larger than what they become, and tasks compress side by side."""

DRIVER_SENDS_BYTES_MAX = 1024 * 1024
"""Up to this many encoded bytes a second and a third stage cost more than sending from the driver."""

TASKS_PER_SLOT = 2
"""The most tasks per slot that read kept batches: small tasks leave little to wait for at the end."""


class Mode(Enum):
    """The sender. AUTO chooses one for each micro-batch."""

    AUTO = "auto"
    SHARED_PRODUCER = "shared-producer"
    DRIVER_PUMP = "driver-pump"


class ModeError(ValueError):
    """The mode that was asked for cannot work here."""


@dataclass(frozen=True, slots=True)
class Volume:
    """The input and output of a micro-batch. None stands for unknown."""

    input_offsets: int | None
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected size of a micro-batch.

    `is_proportional` says that it writes about as much for each record as the one before: no record stays in a state and is
    written later.
    """

    input_offsets: int | None
    is_proportional: bool


@dataclass(frozen=True, slots=True)
class SparkFacts:
    """The conditions of a barrier stage: the number of tasks that fit at once, and whether it may change."""

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
        names = ", ".join(mode.value for mode in Mode)
        raise ModeError(f"mode has to be one of {names}, not {text!r}") from None


def check_mode(mode: Mode, facts: SparkFacts) -> None:
    """Raise ModeError where tasks are to send and no barrier stage can run."""
    if mode is Mode.SHARED_PRODUCER and facts.allocates_dynamically:
        raise ModeError(
            'mode="shared-producer" needs a barrier stage, and Spark runs none with spark.dynamicAllocation.enabled; use '
            'mode="driver-pump" or "auto"'
        )


def is_local(master: str | None) -> bool:
    """True if the tasks run in the driver's own process."""
    return master is not None and (master == "local" or master.startswith("local["))


def direct_bytes_max(master: str | None, *, is_compressed: bool) -> int:
    if is_compressed:
        return DIRECT_BYTES_MAX_COMPRESSED
    return DIRECT_BYTES_MAX if is_local(master) else DIRECT_BYTES_MAX_AFAR


def is_direct(mode: Mode, expected: Expectation, before: Volume | None, bytes_max: int) -> bool:
    """True if the driver collects the rows themselves, because they are few or small.

    This is decided before they are computed. The batch counts as small when its input is small and the output of the
    micro-batch before was small: an aggregation may give many rows for few, but seldom from one micro-batch to the next. It
    also counts as small when the micro-batch before read at least half as much and wrote little. None stands for unknown.
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
    """The sender of a micro-batch of this many encoded bytes: DRIVER_PUMP or SHARED_PRODUCER."""
    if mode is not Mode.AUTO:
        return mode
    if facts.allocates_dynamically or facts.slots < 1 or size_bytes <= DRIVER_SENDS_BYTES_MAX:
        return Mode.DRIVER_PUMP
    return Mode.SHARED_PRODUCER


def sender_tasks(
    sizes: Mapping[int, int], leaders: Mapping[TopicPartition, int], partitions: Sequence[TopicPartition], slots: int
) -> dict[int, int]:
    """Divide the targets among sender tasks: at most `slots` tasks, about equal in bytes, few leaders each.

    A partition belongs to one task only, because sequences are counted per partition. First batches from several
    connections to one leader refuse each other for a while, so few tasks should share a leader.
    """
    ordered = sorted(sizes, key=lambda target: (leaders.get(partitions[target], -1), target))
    width = max(1, min(slots, len(ordered)))
    total = sum(sizes.values()) or 1
    assigned: dict[int, int] = {}
    before = 0
    task = 0
    for place, target in enumerate(ordered):
        is_full = before * width // total > task
        # No task stays empty: the targets that are left have to be enough for the tasks that are left.
        is_needed_elsewhere = len(ordered) - place < width - task
        if place > 0 and task < width - 1 and (is_full or is_needed_elsewhere):
            task += 1
        assigned[target] = task
        before += sizes[target]
    return assigned
