"""What was encoded and what was sent, counted so that the two can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

CHECKSUM_MODULUS = 1 << 63


@dataclass(frozen=True, slots=True)
class Count:
    """Of one target: records, batches, bytes, and the sum of the batches' checksums."""

    records: int = 0
    batches: int = 0
    size_bytes: int = 0
    checksum: int = 0

    def plus(self, other: Count) -> Count:
        return Count(
            self.records + other.records,
            self.batches + other.batches,
            self.size_bytes + other.size_bytes,
            (self.checksum + other.checksum) % CHECKSUM_MODULUS,
        )


Tally = dict[int, Count]
"""A count for each target that has records."""


def tally(counts: Iterable[tuple[int, Count]]) -> Tally:
    total: Tally = {}
    for target, count in counts:
        total[target] = total.get(target, Count()).plus(count)
    return total


def summed(counts: Tally) -> Count:
    total = Count()
    for count in counts.values():
        total = total.plus(count)
    return total


def difference(encoded: Tally, sent: Tally) -> str | None:
    """What is wrong, in words; None if exactly what was encoded was sent."""
    for target in sorted(encoded.keys() | sent.keys()):
        expected, found = encoded.get(target, Count()), sent.get(target, Count())
        if expected != found:
            if expected.records != found.records:
                return f"target {target}: {expected.records} records were encoded, but {found.records} were sent"
            return f"target {target}: {expected.records} records were sent that are not the ones that were encoded"
    return None
