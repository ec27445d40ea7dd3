"""How long the pauses between two tries are. Loaded with the settings, before anything that knows the protocol."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.coordination.deadline import pause_range_ms


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Kafka's `retry.backoff.ms` and `retry.backoff.max.ms`."""

    backoff_ms: float = 20
    backoff_max_ms: float = 1_000
    growth: float = 2

    def __post_init__(self) -> None:
        if not 0 < self.backoff_ms <= self.backoff_max_ms:
            raise ValueError(
                f"retry_backoff_ms is {self.backoff_ms} and retry_backoff_max_ms {self.backoff_max_ms}: "
                "the first is to be above 0 and not above the second"
            )

    def pause_range_ms(self, failures: int) -> tuple[float, float]:
        """What the pause after so many failures in a row is drawn from."""
        return pause_range_ms(failures, self.backoff_ms, self.backoff_max_ms, self.growth)


DEFAULT_RETRY = RetryPolicy()
