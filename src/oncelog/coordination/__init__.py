"""What the coordinators and the broker share: decisions, and the one way to wait."""

from oncelog.coordination.decision import Decision
from oncelog.coordination.parked import Parked, all_of

__all__ = ["Decision", "Parked", "all_of"]
