"""How long the requests wait that change topics: for ZooKeeper, and until this broker hears of it from the controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from oncelog.broker.handlers.timeouts import milliseconds
from oncelog.broker.operations import NO_LEADER
from oncelog.broker.request import Request
from oncelog.cluster.controller.values import ApiError
from oncelog.cluster.zookeeper.asking import within
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.cluster.shared_topics import SharedTopics
    from oncelog.cluster.topic_changes import ActiveController, TopicChanges
    from oncelog.environment import Clock

PATIENCE_MS_MIN = 1000
"""So long an answer of ZooKeeper is waited for, even by who waits for nothing: what is refused at once is told."""
TIMED_OUT = ApiError(ErrorCode.request_timed_out)
NOT_CONTROLLER = ApiError(ErrorCode.not_controller)


class Needs(Protocol):
    """What of the broker is needed here."""

    clock: Clock
    controller: ActiveController
    shared_topics: SharedTopics
    topic_changes: TopicChanges


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
        """What is left of the time for ZooKeeper."""
        return self._patience_end_ms - self._clock.monotonic_ms()


async def until(broker: Needs, name: str, is_so: Callable[[], bool], deadline: RequestDeadline) -> bool:
    """Wait until what this broker is told of the topics of this name makes it so; False if the time is over before."""
    while not is_so():
        left_ms = deadline.left_ms
        if left_ms <= 0:
            return False
        await within(broker.clock, left_ms, broker.shared_topics.heard_of(name))
    return True


def is_led(broker: Needs, topic_id: UUID | None, partition_count: int) -> bool:
    """Whether this broker knows of a leader of each of the first partitions, as DelayedCreatePartitions asks it."""
    topic = None if topic_id is None else broker.shared_topics.with_id(topic_id)
    if topic is None or len(topic.partitions) < partition_count:
        return False
    return all(one.leadership.leader > NO_LEADER for one in topic.partitions[:partition_count])
