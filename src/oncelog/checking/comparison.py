"""Compares an output with its input, record by record: lost, duplicated, unexpected, out of order.

Both sides are given as sightings: a record's identity, the key that its order counts for, and where it was seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

Identity = TypeVar("Identity", bound=Hashable)


class Sighting(NamedTuple, Generic[Identity]):
    """One record of the input or of the output. Records of the same `key` have to stay in order; None has none."""

    identity: Identity
    key: bytes | None
    partition: int
    offset: int


class Misplaced(NamedTuple, Generic[Identity]):
    """A record of the output that comes after one that it should come before."""

    record: Sighting[Identity]
    comes_after: Sighting[Identity]


@dataclass(frozen=True, slots=True)
class Comparison(Generic[Identity]):
    """The result. `lost` are records of the input, all others of the output.

    A record that is there twice is counted as duplicated, with its second and later copies, and not as out of order.
    """

    expected: int
    found: int
    lost: tuple[Sighting[Identity], ...]
    duplicated: tuple[Sighting[Identity], ...]
    unexpected: tuple[Sighting[Identity], ...]
    out_of_order: tuple[Misplaced[Identity], ...]

    @property
    def is_exact(self) -> bool:
        return not (self.lost or self.duplicated or self.unexpected or self.out_of_order)


def compare(inputs: Iterable[Sighting[Identity]], outputs: Iterable[Sighting[Identity]]) -> Comparison[Identity]:
    """Find the output's copy of each record of the input.

    Each side comes in the order of offsets within each partition. Where several records of the input share an identity,
    the first copy is taken for the first of them, and so on.
    """
    waiting: dict[Identity, list[Sighting[Identity]]] = defaultdict(list)
    expected = 0
    for sighting in inputs:
        waiting[sighting.identity].append(sighting)
        expected += 1
    taken: dict[Identity, int] = defaultdict(int)
    newest: dict[tuple[bytes, int, int], tuple[int, Sighting[Identity]]] = {}
    duplicated, unexpected, out_of_order = [], [], []
    found = 0
    for sighting in outputs:
        found += 1
        originals = waiting.get(sighting.identity)
        if originals is None:
            unexpected.append(sighting)
            continue
        nth = taken[sighting.identity]
        taken[sighting.identity] += 1
        if nth >= len(originals):
            duplicated.append(sighting)
            continue
        original = originals[nth]
        if original.key is None:
            continue
        line = (original.key, original.partition, sighting.partition)
        before = newest.get(line)
        if before is not None and original.offset < before[0]:
            out_of_order.append(Misplaced(sighting, before[1]))
        else:
            newest[line] = (original.offset, sighting)
    lost = [original for identity, originals in waiting.items() for original in originals[taken.get(identity, 0) :]]
    return Comparison(expected, found, tuple(lost), tuple(duplicated), tuple(unexpected), tuple(out_of_order))
