"""The wait of requests that change topics: for ZooKeeper, and until the controller has told this broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from oncelog.broker.request import Request, milliseconds
from oncelog.broker.view import NO_LEADER
from oncelog.cluster.controller.values import ApiError
from oncelog.cluster.shared_topics import SharedTopics
from oncelog.cluster.zookeeper.asking import within
from oncelog.coordination import Promise
from oncelog.environment import Clock
from oncelog.wire import ErrorCode

T = TypeVar("T")

PATIENCE_MS_MIN = 1000
"""An answer of ZooKeeper is waited for so long even with a timeout of 0: a refusal comes at once."""
TIMED_OUT = ApiError(ErrorCode.request_timed_out)
NOT_CONTROLLER = ApiError(ErrorCode.not_controller)


class RequestDeadline:
    """The end of a request's own timeout."""

    def __init__(self, clock: Clock, request: Request) -> None:
        self._clock = clock
        self.timeout_ms = milliseconds(request.body.timeout)
        self._end_ms = request.arrived_ms + self.timeout_ms
        self._patience_end_ms = request.arrived_ms + max(self.timeout_ms, PATIENCE_MS_MIN)

    @property
    def left_ms(self) -> float:
        return self._end_ms - self._clock.monotonic_ms()

    @property
    def patience_ms(self) -> float:
        """The time left for ZooKeeper."""
        return self._patience_end_ms - self._clock.monotonic_ms()

    async def within(self, asked: Promise[T]) -> T | None:
        """Wait for an answer of ZooKeeper; None if the time is over before."""
        return await within(self._clock, self.patience_ms, asked)

    async def until(self, topics: SharedTopics, name: str, is_so: Callable[[], bool]) -> bool:
        """Wait until what this broker is told of the topics of this name makes it so; False if the time is over before."""
        while not is_so():
            left_ms = self.left_ms
            if left_ms <= 0:
                return False
            await within(self._clock, left_ms, topics.announcement_of(name))
        return True


def is_led(topics: SharedTopics, topic_id: UUID | None, partition_count: int) -> bool:
    """True if this broker knows a leader of each of the first partitions, as in Kafka's DelayedCreatePartitions."""
    topic = None if topic_id is None else topics.with_id(topic_id)
    if topic is None or len(topic.partitions) < partition_count:
        return False
    return all(one.leadership.leader > NO_LEADER for one in topic.partitions[:partition_count])
