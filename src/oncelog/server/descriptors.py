"""The limit of the process on file descriptors, and its division between files of the log and connections."""

from __future__ import annotations

import resource
from typing import NamedTuple

RESERVED = 64
"""For the event loop, the listener, locks, checkpoints, what threads open for a moment, modules that are imported."""
SHARE_MIN = 16
UNLIMITED = 2**20
"""The number to use where there is no limit; no system without one can open so many."""


class DescriptorBudget(NamedTuple):
    """The most files of the log that are open at a time, and the most connections."""

    files: int
    connections: int


def descriptor_budget() -> DescriptorBudget:
    """Each gets half of what the soft limit allows now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = UNLIMITED if soft == resource.RLIM_INFINITY else soft
    share = max(SHARE_MIN, (limit - RESERVED) // 2)
    return DescriptorBudget(files=share, connections=share)


def raise_descriptor_limit() -> None:
    """Raise the soft limit to the hard one. For a process of the broker's own: programs that use select() rely on the soft one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard or soft == resource.RLIM_INFINITY:
        return
    wanted = UNLIMITED if hard == resource.RLIM_INFINITY else hard
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError):
        # Some systems take less than they say; the budget follows from what there is.
        return
