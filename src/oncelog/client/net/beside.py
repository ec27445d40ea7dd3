"""A conversation that goes on while another one waits, within one call of the user."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from oncelog.client.net.conversation import Conversation, Draw, Effect, Now, Sleep, Ticket, Wait


class Beside:
    """Carries a conversation on whenever `advance` is called, as far as it comes without waiting.

    Whoever waits meanwhile waits for its `tickets`, too, and no longer than to `until_ms`.
    """

    def __init__(self, conversation: Conversation[None]) -> None:
        self._conversation = conversation
        self._resume: Callable[[], Effect] = conversation.__next__
        self._tickets: tuple[Ticket, ...] | None = None
        self.until_ms = float("inf")

    @property
    def tickets(self) -> tuple[Ticket, ...]:
        return self._tickets or ()

    def advance(self) -> Conversation[bool]:
        """Say whether it has come to its end. Raises what it raises."""
        while True:
            if self._tickets is not None:
                now_ms: float = yield Now()
                done = [ticket for ticket in self._tickets if ticket.is_done]
                if not done and now_ms < self.until_ms:
                    return False
                self._go_on(partial(self._conversation.send, done))
            try:
                effect = self._resume()
            except StopIteration:
                return True
            yield from self._perform(effect)

    def close(self) -> None:
        self._conversation.close()

    def _perform(self, effect: Effect) -> Conversation[None]:
        match effect:
            case Wait():
                yield from self._wait(effect.tickets, effect.timeout_ms)
            case Sleep():
                pause_ms: float = yield Draw(effect.low_ms, effect.high_ms)
                yield from self._wait((), pause_ms)
            case _:
                try:
                    value = yield effect
                except Exception as error:  # noqa: BLE001 - the conversation decides what it means
                    self._go_on(partial(self._conversation.throw, error))
                else:
                    self._go_on(partial(self._conversation.send, value))

    def _wait(self, tickets: tuple[Ticket, ...], timeout_ms: float | None) -> Conversation[None]:
        now_ms: float = yield Now()
        self._tickets = tickets
        self.until_ms = float("inf") if timeout_ms is None else now_ms + timeout_ms

    def _go_on(self, resume: Callable[[], Effect]) -> None:
        self._resume = resume
        self._tickets = None
        self.until_ms = float("inf")
