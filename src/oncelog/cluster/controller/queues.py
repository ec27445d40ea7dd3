"""The controller's queue of requests to each broker: one request at a time, repeated until the broker answers or is gone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from oncelog.cluster.channel import ChannelError
from oncelog.cluster.controller.actions import BrokerRequest
from oncelog.cluster.controller.requests import Message, Messages, address
from oncelog.cluster.controller.values import RegisteredBroker
from oncelog.cluster.zookeeper.asking import within
from oncelog.coordination import Promise, sleep, start
from oncelog.environment import Clock

PAUSE_MS = 100
"""Pause before a retry, as in Kafka's RequestSendThread."""

ANSWERED_WITHIN_MS = 500
"""Limit of `keep_pace`: many times the duration of one round of requests."""

OnAnswer = Callable[[BrokerRequest, Any], None]


class Asking(Protocol):
    """A channel to one broker."""

    async def ask(self, api_key: int, version: int, body: Any, timeout_ms: float) -> Any: ...

    def close(self) -> None: ...


OpenChannel = Callable[[int, str, int], Asking]
"""Opens a channel to a broker, by its id, host and port."""


class BrokerQueue:
    """Requests to one broker in one epoch. Those to an earlier epoch are dropped: a new broker gets the full state."""

    def __init__(
        self,
        clock: Clock,
        open_channel: OpenChannel,
        broker: RegisteredBroker,
        listener: str,
        timeout_ms: int,
        on_answer: OnAnswer,
    ) -> None:
        self.epoch = broker.epoch
        self._clock = clock
        reached = address(broker, listener)
        assert reached is not None, "a broker without the listener is left out"
        self._channel = open_channel(broker.broker_id, *reached)
        self._timeout_ms = timeout_ms
        self._on_answer = on_answer
        self._waiting: deque[tuple[BrokerRequest, Message]] = deque()
        self._is_busy = False
        self._is_closed = False
        self._is_late = False

    def add(self, request: BrokerRequest, message: Message) -> None:
        self._waiting.append((request, message))
        if not self._is_busy:
            start(self._send())

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    @property
    def is_waited_for(self) -> bool:
        return bool(self._waiting) and not self._is_late

    def wait_no_longer(self) -> None:
        """Marks a broker with unanswered requests as late: `keep_pace` skips it until it has answered all."""
        self._is_late = bool(self._waiting)

    def close(self) -> None:
        self._is_closed = True
        self._waiting.clear()
        self._channel.close()

    async def _send(self) -> None:
        self._is_busy = True
        while self._waiting:
            request, (api_key, version, body) = self._waiting[0]
            answer = await self._channel.ask(api_key, version, body, self._timeout_ms)
            if self._is_closed:
                return
            if isinstance(answer, ChannelError):
                await sleep(self._clock, PAUSE_MS)
                continue
            self._waiting.popleft()
            if not self._waiting:
                self._is_late = False
            self._on_answer(request, answer)
        self._is_busy = False


class BrokerQueues:
    def __init__(
        self,
        clock: Clock,
        open_channel: OpenChannel,
        controller_id: int,
        listener: str,
        timeout_ms: int,
        on_answer: OnAnswer,
    ) -> None:
        self._clock = clock
        self._open_channel = open_channel
        self._listener = listener
        self._timeout_ms = timeout_ms
        self._on_answer = on_answer
        self._messages = Messages(controller_id, listener)
        self._queues: dict[int, BrokerQueue] = {}
        self._all_told: Promise[None] | None = None
        self._in_time: Promise[None] | None = None

    def send(self, request: BrokerRequest, broker: RegisteredBroker) -> None:
        queue = self._queues.get(broker.broker_id)
        if queue is None or queue.epoch != broker.epoch:
            if queue is not None:
                queue.close()
            queue = BrokerQueue(
                self._clock, self._open_channel, broker, self._listener, self._timeout_ms, self._answered
            )
            self._queues[broker.broker_id] = queue
        queue.add(request, self._messages.message(request))

    def all_told(self) -> Promise[None]:
        """Resolved when every broker has answered all its requests, or is gone."""
        if self._all_told is None:
            self._all_told = Promise()
            self._see_whether_all_are_told()
        return self._all_told or Promise.ready(None)

    async def keep_pace(self) -> None:
        """Waits until the brokers have answered, ANSWERED_WITHIN_MS at most. A late broker is skipped until it catches up."""
        if any(queue.is_waited_for for queue in self._queues.values()):
            self._in_time = Promise()
            await within(self._clock, ANSWERED_WITHIN_MS, self._in_time)
            for queue in self._queues.values():
                queue.wait_no_longer()

    def _answered(self, request: BrokerRequest, answer: Any) -> None:
        self._on_answer(request, answer)
        self._see_whether_all_are_told()

    def _see_whether_all_are_told(self) -> None:
        if self._all_told is not None and all(queue.is_empty for queue in self._queues.values()):
            told, self._all_told = self._all_told, None
            told.resolve(None)
        if self._in_time is not None and not any(queue.is_waited_for for queue in self._queues.values()):
            in_time, self._in_time = self._in_time, None
            in_time.resolve(None)

    def keep(self, registered: dict[int, RegisteredBroker]) -> None:
        """Closes the queues of brokers that are gone."""
        for broker_id in self._queues.keys() - registered.keys():
            self._queues.pop(broker_id).close()
        self._see_whether_all_are_told()

    def close(self) -> None:
        for queue in self._queues.values():
            queue.close()
        self._queues.clear()
        self._see_whether_all_are_told()
