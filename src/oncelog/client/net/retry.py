"""Retries: the pauses between them and their deadline, in one policy for the whole client.

The pause doubles with every failure up to a maximum and is drawn from 20 % around it, so that clients that failed together
do not come back together (KIP-580). Whatever is tried again has a deadline.
"""

from __future__ import annotations

from oncelog.client.net.flows import Draw, Now, Sleep
from oncelog.client.net.settings import RetryPolicy

BUSY = RetryPolicy(backoff_ms=2, backoff_max_ms=20, growth=1.2)
"""The policy for CONCURRENT_TRANSACTIONS: the markers of the transaction before are being written, which takes milliseconds:
to be twice as late as needed would show."""


class Backoff:
    """The failures of one thing in a row, and when it may be tried again, while everything else goes on."""

    __slots__ = ("failures", "retry_at_ms")

    def __init__(self) -> None:
        self.failures = 0
        self.retry_at_ms = float("-inf")

    async def fail(self, policy: RetryPolicy) -> None:
        self.failures += 1
        pause_ms = await Draw(*policy.pause_range_ms(self.failures))
        now_ms = await Now()
        self.retry_at_ms = now_ms + pause_ms

    def succeed(self) -> None:
        self.failures = 0
        self.retry_at_ms = float("-inf")


class Retries:
    """The deadline of one call, and the number of its failures."""

    __slots__ = ("_deadline_ms", "_failures", "_policy")

    def __init__(self, deadline_ms: float, policy: RetryPolicy) -> None:
        self._deadline_ms = deadline_ms
        self._policy = policy
        self._failures = 0

    @classmethod
    async def within(cls, time_ms: float, policy: RetryPolicy) -> Retries:
        now_ms = await Now()
        return cls(now_ms + time_ms, policy)

    async def left_ms(self) -> float:
        """The time that is left; 0 when it is over."""
        now_ms = await Now()
        return max(0.0, self._deadline_ms - now_ms)

    async def pause(self, policy: RetryPolicy | None = None) -> bool:
        """Wait before the next try, never beyond the deadline. False, at once, when the time is over."""
        left_ms = await self.left_ms()
        if not left_ms:
            return False
        self._failures += 1
        low_ms, high_ms = (policy or self._policy).pause_range_ms(self._failures)
        await Sleep(min(low_ms, left_ms), min(high_ms, left_ms))
        return True
