"""What the coordinators and the broker share: decisions, and the one way to wait."""

from oncelog.coordination.decision import Decision
from oncelog.coordination.parked import Parked
from oncelog.coordination.scheduler import Flow, Task, begin, sleep, start

__all__ = ["Decision", "Flow", "Parked", "Task", "begin", "sleep", "start"]
