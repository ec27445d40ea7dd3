"""A point in time, as the group coordinator is told it."""

from __future__ import annotations

from typing import NamedTuple


class Timestamps(NamedTuple):
    """Records carry `wall_ms`, milliseconds since 1970; deadlines are of `steady_ms`, which no change of the date moves."""

    wall_ms: int
    steady_ms: float
