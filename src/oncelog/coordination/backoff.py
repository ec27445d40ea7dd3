"""How long the pauses between two tries are.

A pause doubles with every failure up to a maximum and is drawn from 20 % around it, so that those who failed together do not
come back together (KIP-580).
"""

from __future__ import annotations

JITTER = 0.2
FAILURES_MAX = 32
"""More of them in a row make no pause longer."""


def pause_range_ms(failures: int, first_ms: float, max_ms: float, growth: float = 2) -> tuple[float, float]:
    """What the pause after so many failures in a row is drawn from."""
    pause_ms = min(first_ms * growth ** min(failures - 1, FAILURES_MAX), max_ms)
    return pause_ms * (1 - JITTER), min(pause_ms * (1 + JITTER), max_ms)
