"""Facts and findings of an inspection, and what a start of the broker would make of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from oncelog.log.inspection.walk import Damage
from oncelog.log.outcome import AbortedTransaction


class Severity(Enum):
    """Damage is what no broker leaves behind. Pending is what a crash may leave, and a start puts right without a loss."""

    DAMAGE = "damage"
    PENDING = "pending"


class AtStart(StrEnum):
    """The action of a start."""

    CORRECTS = "a start takes oncelog-checkpoint's word instead"
    CUTS = "a start cuts it off"
    FINISHES = "a start finishes it"
    IGNORES = "a start does not notice"
    OFFLINE = "a start keeps the partition offline, or reads meet it later"
    READS_AGAIN = "a start reads the log again instead"
    REBUILDS = "a start, or the first read, makes it anew"
    REFUSES = "a start is refused"
    REMOVES = "a start removes it"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault in the file `path`, at an offset of the log and a byte of the file."""

    path: str
    what: str
    at_start: AtStart
    severity: Severity = Severity.DAMAGE
    offset: int | None = None
    position: int | None = None


Report = Callable[[Finding], None]


@dataclass(frozen=True, slots=True)
class KnownOfPartition:
    """Facts about a partition from the rest of the data directory.

    `was_clean`: the broker closed it, and the log ends at the recovery point. Compaction may have left gaps below `gaps_below`.
    `lost_power`: bytes that were not durable may be gone in any part. `leader_epoch_max` is None without the journal.
    `has_own_checkpoint`: a start knows which transactions were aborted.
    """

    name: str
    was_clean: bool = False
    lost_power: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
    gaps_below: int = 0
    index_interval_bytes: int = 4096
    leader_epoch_max: int | None = None
    has_own_checkpoint: bool = False


@dataclass(slots=True)
class SegmentFacts:
    """Facts about a segment. `end_offset` is its end, if the end is known.

    `is_exact`: every transaction in it is known from its beginning.
    """

    path: str
    base_offset: int
    damages: list[Damage] = field(default_factory=list)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    wrong_indexes: list[str] = field(default_factory=list)
    size_bytes: int = 0
    end_offset: int | None = None
    is_exact: bool = True
