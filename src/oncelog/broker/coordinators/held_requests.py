"""Requests that are held back while another of their transactional id is carried out, as Kafka's clients would ask again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from oncelog.broker.coordinators.producer_ids import OutOfProducerIdsError, ProducerIds
from oncelog.coordination import Decision, Promise
from oncelog.environment import Clock
from oncelog.transactions import TransactionRecord

A = TypeVar("A")

HOLD_MS = 500
"""How long a request is held back before it is told to come back."""


class HeldRequests:
    """Holds back requests whose transactional id is in the middle of something."""

    def __init__(self, clock: Clock, producer_ids: ProducerIds) -> None:
        self._clock = clock
        self._producer_ids = producer_ids
        self._held: dict[str, dict[Promise[None], None]] = {}

    async def decide(
        self,
        transactional_id: str,
        decide: Callable[[], Decision[TransactionRecord, A]],
        must_wait: Callable[[A], bool],
    ) -> Decision[TransactionRecord, A]:
        """Decide now, or again once the id is free; after HOLD_MS the answer is what is decided then."""
        decision = await self._with_producer_ids(decide)
        if not must_wait(decision.answer):
            return decision
        deadline_ms = self._clock.monotonic_ms() + HOLD_MS
        while must_wait(decision.answer) and self._clock.monotonic_ms() < deadline_ms:
            await self._wait(transactional_id, deadline_ms)
            decision = await self._with_producer_ids(decide)
        return decision

    def resume(self, transactional_id: str) -> None:
        """Resume the requests that wait for this id."""
        for woken in self._held.pop(transactional_id, ()):
            if not woken.is_resolved:
                woken.resolve(None)

    async def _with_producer_ids(
        self, decide: Callable[[], Decision[TransactionRecord, A]]
    ) -> Decision[TransactionRecord, A]:
        """Decide now, or when there is a producer id for it. No wait follows the decision."""
        while True:
            try:
                return decide()
            except OutOfProducerIdsError:
                await self._producer_ids.available()

    async def _wait(self, transactional_id: str, deadline_ms: float) -> None:
        """Wait until the id has settled, or until the deadline."""
        woken: Promise[None] = Promise()
        delay_ms = deadline_ms - self._clock.monotonic_ms()
        timer = self._clock.call_later(delay_ms, lambda: woken.resolve(None))
        self._held.setdefault(transactional_id, {})[woken] = None
        try:
            await woken
        finally:
            timer.cancel()
            held = self._held.get(transactional_id)
            if held is not None:
                held.pop(woken, None)
                if not held:
                    del self._held[transactional_id]
