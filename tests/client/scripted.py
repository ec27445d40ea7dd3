"""Runs conversations against answers that a test makes up, on a clock that moves only when the conversation waits."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any

from oncelog.client.errors import ClientError, ConnectionLost
from oncelog.client.net.conversation import (
    Call,
    Conversation,
    Draw,
    Effect,
    Handshake,
    InFlight,
    Now,
    Send,
    Sleep,
    Ticket,
    Wait,
    WallClock,
)
from oncelog.client.net.settings import ClientSettings
from oncelog.client.requests import ApiRequest
from oncelog.client.values import Address
from oncelog.wire.offered_versions import OfferedVersions

HERE = Address("scripted", 9092)
SETTINGS = ClientSettings((HERE,), call_timeout_ms=1000, request_timeout_ms=100)
Answer = Callable[[ApiRequest], Any]
HELD = object()
"""The answer of a broker that stands still: it does not come, and others are not kept waiting by it."""


def lost(*, sent: bool = True) -> ConnectionLost:
    return ConnectionLost("cut", sent=sent)


class ScriptedTransport:
    """`answer` gets each request and returns a message, HELD, or a ClientError that the request fails with.

    Answers arrive in the order of the requests, when the conversation waits for them. A lost connection loses what was
    sent after it, too. What takes no time elsewhere takes none here; every wait for nothing moves the clock.
    """

    def __init__(self, answer: Answer, *, features: dict[str, int] | None = None, seed: int = 0) -> None:
        self.now_ms = 0.0
        self.requests: list[ApiRequest] = []
        self._answer = answer
        self._features = {"transaction.version": 2} if features is None else features
        self._on_their_way: deque[tuple[Ticket, Any]] = deque()
        self._random = Random(seed)

    def run(self, conversation: Conversation[Any]) -> Any:
        value: Any = None
        error: Exception | None = None
        while True:
            try:
                effect = conversation.send(value) if error is None else conversation.throw(error)
            except StopIteration as end:
                return end.value
            value, error = None, None
            try:
                value = self._perform(effect)
            except ClientError as raised:
                error = raised

    def names(self) -> list[str]:
        return [request.api.name for request in self.requests]

    def _perform(self, effect: Effect) -> Any:
        match effect:
            case Send():
                return self._send(effect)
            case Wait():
                return self._wait(effect)
            case Sleep():
                self.now_ms += effect.high_ms
            case Now():
                return self.now_ms
            case Draw():
                return self._random.uniform(effect.low, effect.high)
            case Handshake():
                return OfferedVersions({}, self._features, 0)
            case InFlight():
                return Counter(ticket.address for ticket, _ in self._on_their_way)
            case WallClock():
                return int(self.now_ms)
            case Call():
                return effect.function()

    def _send(self, effect: Send) -> Ticket:
        self.requests.append(effect.request)
        ticket = Ticket(effect.address, effect.request, effect.lane)
        answer = self._answer(effect.request)
        if isinstance(answer, ConnectionLost) and not answer.sent:
            ticket.fail(answer)
        elif answer is HELD:
            ticket.deadline_ms = self.now_ms + (effect.timeout_ms or SETTINGS.request_timeout_ms)
        else:
            self._on_their_way.append((ticket, answer))
        return ticket

    def _wait(self, effect: Wait) -> list[Ticket]:
        until_ms = float("inf") if effect.timeout_ms is None else self.now_ms + effect.timeout_ms
        while True:
            for ticket in effect.tickets:
                if ticket.is_late(self.now_ms):
                    ticket.fail(lost())
            if any(ticket.is_done for ticket in effect.tickets):
                break
            if not self._on_their_way:
                next_ms = min([until_ms, *(ticket.deadline_ms for ticket in effect.tickets)])
                assert next_ms != float("inf"), "the conversation waits for nothing, for ever"
                self.now_ms = max(self.now_ms, next_ms)
                if next_ms == until_ms:
                    break
                continue
            self.now_ms += 1
            ticket, answer = self._on_their_way.popleft()
            if isinstance(answer, ConnectionLost):
                ticket.fail(answer)
                for other, _ in self._on_their_way:
                    other.fail(lost())
                self._on_their_way.clear()
            elif isinstance(answer, ClientError):
                ticket.fail(answer)
            else:
                ticket.answer(answer)
        return [ticket for ticket in effect.tickets if ticket.is_done]
