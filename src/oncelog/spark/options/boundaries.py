"""The start and the end of a read, from the options."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from oncelog.client.values import OffsetSpec
from oncelog.spark.offsets import SPECIFICATIONS, Offsets, from_json, from_tree
from oncelog.spark.options.table import OptionError, OptionValues, natural

EXAMPLE = 'JSON such as {"topic": {"0": 23}, "other": "earliest"}'


@dataclass(frozen=True, slots=True)
class Boundary:
    """The start or the end of a read: one rule for all partitions, or one for each.

    `everywhere` is an OffsetSpec. `offsets` holds offsets or OffsetSpecs, and `topics` the OffsetSpecs of whole topics, which
    are none of those. A time is in milliseconds; `timestamp_ms` is
    for all partitions, `timestamps_ms` for each. `option` is the one that says so.
    """

    everywhere: OffsetSpec | None = None
    offsets: Offsets | None = None
    topics: Mapping[str, OffsetSpec] = field(default_factory=dict)
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
        return self.everywhere is spec or spec in (self.offsets or {}).values() or spec in self.topics.values()


def starting(options: OptionValues, *, streaming: bool) -> Boundary:
    """The start of a read. Raises OptionError."""
    default = OffsetSpec.LATEST if streaming else OffsetSpec.EARLIEST
    boundary = _boundary(options, "starting", default)
    if not streaming and boundary.has_latest:
        raise OptionError("option startingOffsets: a batch read that starts at the latest offset reads nothing")
    return boundary


def ending(options: OptionValues, *, streaming: bool) -> Boundary:
    """The end of a batch read; a stream has no end. Raises OptionError."""
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
    by_offset = options.optional(f"{which}Offsets", _offsets(which))
    if timestamp_ms is not None:
        return Boundary(timestamp_ms=timestamp_ms, option=f"{which}Timestamp")
    if timestamps_ms is not None:
        return Boundary(timestamps_ms=timestamps_ms, option=f"{which}OffsetsByTimestamp")
    return replace(by_offset or Boundary(everywhere=default), option=f"{which}Offsets")


def _times(text: str) -> Offsets:
    times = _per_partition(text)
    if any(time_ms < 0 for time_ms in times.values()):
        raise ValueError("times of 0 or greater, in milliseconds")
    return times


def _offsets(which: str) -> Callable[[str], Boundary]:
    words = {"starting": "earliest, latest", "ending": "latest"}[which]

    def read(text: str) -> Boundary:
        word = text.strip().lower()
        if word in SPECIFICATIONS:
            return Boundary(everywhere=SPECIFICATIONS[word])
        if not word.startswith("{"):
            raise ValueError(f"{words} or {EXAMPLE}")
        try:
            given = _given(json.loads(text))
        except ValueError as error:
            raise ValueError(f"{words} or {EXAMPLE} ({error})") from None
        if any(offset < OffsetSpec.EARLIEST for offset in (given.offsets or {}).values()):
            raise ValueError("offsets, or -1 for the latest and -2 for the earliest")
        return given

    return read


def _given(tree: Mapping[str, object]) -> Boundary:
    """Raises ValueError."""
    topics: dict[str, OffsetSpec] = {}
    for topic, said in tree.items():
        if isinstance(said, str):
            word = said.strip().lower()
            if word not in SPECIFICATIONS:
                raise ValueError(f"topic {topic!r}: {said!r} is not earliest or latest")
            topics[topic] = SPECIFICATIONS[word]
    offsets = from_tree({topic: said for topic, said in tree.items() if topic not in topics})
    return Boundary(offsets=offsets, topics=topics)


def _per_partition(text: str) -> Offsets:
    try:
        return from_json(text)
    except ValueError as error:
        raise ValueError(f'JSON such as {{"topic": {{"0": 1000}}}} ({error})') from None
