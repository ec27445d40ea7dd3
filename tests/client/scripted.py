"""Runs flows against answers that a test makes up, on a clock that moves only when the flow waits."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any

from oncelog.client.errors import ClientError, ConnectionLost
from oncelog.client.net.flows import (
    Callback,
    Draw,
    Effect,
    Flow,
    Handshake,
    InFlight,
    Now,
    PendingRequest,
    Send,
    Sleep,
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

    Answers arrive in the order of the requests, when the flow waits for them. A lost connection loses what was
    sent after it, too. What takes no time elsewhere takes none here; every wait for nothing moves the clock.
    """

    def __init__(self, answer: Answer, *, features: dict[str, int] | None = None, seed: int = 0) -> None:
        self.now_ms = 0.0
        self.requests: list[ApiRequest] = []
        self._answer = answer
        self._features = {"transaction.version": 2} if features is None else features
        self._on_their_way: deque[tuple[PendingRequest, Any]] = deque()
        self._random = Random(seed)

    def run(self, flow: Flow[Any]) -> Any:
        value: Any = None
        error: Exception | None = None
        while True:
            try:
                effect = flow.send(value) if error is None else flow.throw(error)
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
                return Counter(pending.address for pending, _ in self._on_their_way)
            case WallClock():
                return int(self.now_ms)
            case Callback():
                return effect.function()

    def _send(self, effect: Send) -> PendingRequest:
        self.requests.append(effect.request)
        pending = PendingRequest(effect.address, effect.request, effect.use)
        answer = self._answer(effect.request)
        if isinstance(answer, ConnectionLost) and not answer.sent:
            pending.fail(answer)
        elif answer is HELD:
            pending.deadline_ms = self.now_ms + (effect.timeout_ms or SETTINGS.request_timeout_ms)
        else:
            self._on_their_way.append((pending, answer))
        return pending

    def _wait(self, effect: Wait) -> list[PendingRequest]:
        until_ms = float("inf") if effect.timeout_ms is None else self.now_ms + effect.timeout_ms
        while True:
            for pending in effect.awaited:
                if pending.is_late(self.now_ms):
                    pending.fail(lost())
            if any(pending.is_done for pending in effect.awaited):
                break
            if not self._on_their_way:
                next_ms = min([until_ms, *(pending.deadline_ms for pending in effect.awaited)])
                assert next_ms != float("inf"), "the flow waits for nothing, for ever"
                self.now_ms = max(self.now_ms, next_ms)
                if next_ms == until_ms:
                    break
                continue
            self.now_ms += 1
            pending, answer = self._on_their_way.popleft()
            if isinstance(answer, ConnectionLost):
                pending.fail(answer)
                for other, _ in self._on_their_way:
                    other.fail(lost())
                self._on_their_way.clear()
            elif isinstance(answer, ClientError):
                pending.fail(answer)
            else:
                pending.answer(answer)
        return [pending for pending in effect.awaited if pending.is_done]
