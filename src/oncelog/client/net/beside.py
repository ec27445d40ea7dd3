"""A flow that goes on while another one waits, within one call of the user."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from oncelog.client.net.flows import Draw, Effect, Flow, Now, PendingRequest, Sleep, Wait


class Beside:
    """Carries a flow on whenever `advance` is called, as far as it comes without waiting.

    Whoever waits meanwhile waits for its `awaited`, too, and no longer than to `until_ms`.
    """

    def __init__(self, flow: Flow[None]) -> None:
        self._flow = flow
        self._resume: Callable[[], Effect] = partial(flow.send, None)
        self._tickets: tuple[PendingRequest, ...] | None = None
        self.until_ms = float("inf")

    @property
    def awaited(self) -> tuple[PendingRequest, ...]:
        return self._tickets or ()

    async def advance(self) -> bool:
        """Say whether it has come to its end. Raises what it raises."""
        while True:
            if self._tickets is not None:
                now_ms = await Now()
                done = [pending for pending in self._tickets if pending.is_done]
                if not done and now_ms < self.until_ms:
                    return False
                self._go_on(partial(self._flow.send, done))
            try:
                effect = self._resume()
            except StopIteration:
                return True
            await self._perform(effect)

    def close(self) -> None:
        self._flow.close()

    async def _perform(self, effect: Effect) -> None:
        match effect:
            case Wait():
                await self._wait(effect.awaited, effect.timeout_ms)
            case Sleep():
                pause_ms = await Draw(effect.low_ms, effect.high_ms)
                await self._wait((), pause_ms)
            case _:
                try:
                    value: object = await effect
                except Exception as error:  # noqa: BLE001 - the flow decides what it means
                    self._go_on(partial(self._flow.throw, error))
                else:
                    self._go_on(partial(self._flow.send, value))

    async def _wait(self, awaited: tuple[PendingRequest, ...], timeout_ms: float | None) -> None:
        now_ms = await Now()
        self._tickets = awaited
        self.until_ms = float("inf") if timeout_ms is None else now_ms + timeout_ms

    def _go_on(self, resume: Callable[[], Effect]) -> None:
        self._resume = resume
        self._tickets = None
        self.until_ms = float("inf")
