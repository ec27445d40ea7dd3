"""Where in a log's segments recent reads ended."""

from __future__ import annotations

from oncelog.log.segment import Segment

POSITIONS_KEPT = 64


class ReadPositions:
    """A reader that goes on where it ended needs no look at an index, and what has come since is known without one."""

    __slots__ = ("_positions",)

    def __init__(self) -> None:
        self._positions: dict[int, tuple[Segment, int]] = {}

    def keep(self, offset: int, segment: Segment, position: int) -> None:
        """In `segment` the batches from `offset` on begin at `position`; it is its size where none follows."""
        positions = self._positions
        if len(positions) >= POSITIONS_KEPT and offset not in positions:
            del positions[next(iter(positions))]
        positions[offset] = (segment, position)

    def of(self, offset: int, segment: Segment) -> int | None:
        kept = self._positions.get(offset)
        return kept[1] if kept is not None and kept[0] is segment else None

    def clear(self) -> None:
        self._positions.clear()
