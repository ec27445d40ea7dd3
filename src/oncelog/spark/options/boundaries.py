"""Where a read starts or ends, as the options say it."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.client.values import OffsetSpec
from oncelog.spark.offsets import SPECIFICATIONS, Offsets, from_json
from oncelog.spark.options.table import OptionError
from oncelog.spark.options.values import OptionValues, natural


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where reading starts or ends: one rule for all partitions, or one for each.

    `everywhere` is an OffsetSpec. `offsets` holds offsets or OffsetSpecs. A time is in milliseconds; `timestamp_ms` is
    for all partitions, `timestamps_ms` for each. `option` is the one that says so.
    """

    everywhere: OffsetSpec | None = None
    offsets: Offsets | None = None
    timestamp_ms: int | None = None
    timestamps_ms: Offsets | None = None
    option: str = ""

    @property
    def has_latest(self) -> bool:
        return self._has(OffsetSpec.LATEST)

    @property
    def has_earliest(self) -> bool:
        return self._has(OffsetSpec.EARLIEST)

    def _has(self, spec: OffsetSpec) -> bool:
        return self.everywhere is spec or spec in (self.offsets or {}).values()


def starting(options: OptionValues, *, streaming: bool) -> Boundary:
    """Where to start. Raises OptionError."""
    default = OffsetSpec.LATEST if streaming else OffsetSpec.EARLIEST
    boundary = _boundary(options, "starting", default)
    if not streaming and boundary.has_latest:
        raise OptionError("option startingOffsets: a batch read that starts at the latest offset reads nothing")
    return boundary


def ending(options: OptionValues, *, streaming: bool) -> Boundary:
    """Where a batch read ends; a stream has no end. Raises OptionError."""
    if streaming:
        names = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
        given = next((name for name in names if options.is_given(name)), None)
        if given is not None:
            raise OptionError(f"option {given} ends a batch read; a streaming read has no end")
    boundary = _boundary(options, "ending", OffsetSpec.LATEST)
    if boundary.has_earliest:
        raise OptionError("option endingOffsets: a read that ends at the earliest offset reads nothing")
    return boundary


def _boundary(options: OptionValues, which: str, default: OffsetSpec) -> Boundary:
    """The most exact of the three options wins, as in Spark: one timestamp, timestamps, offsets."""
    timestamp_ms = options.optional(f"{which}Timestamp", natural)
    timestamps_ms = options.optional(f"{which}OffsetsByTimestamp", _times)
    by_offset = options.optional(f"{which}Offsets", _offsets)
    if timestamp_ms is not None:
        return Boundary(timestamp_ms=timestamp_ms, option=f"{which}Timestamp")
    if timestamps_ms is not None:
        return Boundary(timestamps_ms=timestamps_ms, option=f"{which}OffsetsByTimestamp")
    name = f"{which}Offsets"
    if isinstance(by_offset, dict):
        return Boundary(offsets=by_offset, option=name)
    return Boundary(everywhere=default if by_offset is None else by_offset, option=name)


def _times(text: str) -> Offsets:
    times = _per_partition(text)
    if any(time_ms < 0 for time_ms in times.values()):
        raise ValueError("times of 0 or greater, in milliseconds")
    return times


def _offsets(text: str) -> Offsets | OffsetSpec:
    if text.strip().lower() in SPECIFICATIONS:
        return SPECIFICATIONS[text.strip().lower()]
    offsets = _per_partition(text)
    if any(offset < OffsetSpec.EARLIEST for offset in offsets.values()):
        raise ValueError("offsets, or -1 for the latest and -2 for the earliest")
    return offsets


def _per_partition(text: str) -> Offsets:
    try:
        return from_json(text)
    except ValueError as error:
        raise ValueError('JSON such as {"topic": {"0": 23}} (' + str(error) + ")") from None
