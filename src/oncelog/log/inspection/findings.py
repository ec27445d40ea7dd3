"""What an inspection finds, and what a start of the broker would make of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum


class Severity(Enum):
    """Damage is what no broker leaves behind. Pending is what a crash may leave, and a start puts right without a loss."""

    DAMAGE = "damage"
    PENDING = "pending"


class AtStart(StrEnum):
    """What a start does about it."""

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
    """What is wrong in the file `path`, and where: an offset of the log, a byte of the file."""

    path: str
    what: str
    at_start: AtStart
    severity: Severity = Severity.DAMAGE
    offset: int | None = None
    position: int | None = None


Report = Callable[[Finding], None]
