"""The parts that the coordinators and the broker share: decisions, and flows, the one way to wait."""

from oncelog.coordination.decision import Decision
from oncelog.coordination.flows import Flow, Promise, Task, begin, sleep, start

__all__ = ["Decision", "Flow", "Promise", "Task", "begin", "sleep", "start"]
