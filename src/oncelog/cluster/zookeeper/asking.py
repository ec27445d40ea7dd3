"""Requests to ZooKeeper, repeated until they are answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from oncelog.cluster.zookeeper.session import (
    Create,
    Exists,
    GetChildren,
    GetData,
    Request,
    Result,
    ZooKeeper,
    ZooKeeperError,
)
from oncelog.cluster.zookeeper.znodes import paths
from oncelog.coordination import Promise
from oncelog.environment import Clock

T = TypeVar("T")
Reading = GetData | GetChildren | Exists


class SessionEndedError(Exception):
    """The session expired while a request was under way: what it was for is void."""


async def ask(zookeeper: ZooKeeper, request: Request) -> Result:
    """The answer. After a lost connection the request is sent again, and may be carried out twice.

    Raises SessionEndedError.
    """
    while True:
        result = await zookeeper.submit(request)
        if result is ZooKeeperError.SESSION_EXPIRED:
            raise SessionEndedError
        if result is not ZooKeeperError.CONNECTION_LOSS:
            return result


async def catch_up(zookeeper: ZooKeeper) -> bool:
    """Brings the server up to date: one that answers a write, even with an error, has all earlier writes.

    Without it, a server that is behind lacks new topics and a new controller. Raises SessionEndedError.
    """
    return await ask(zookeeper, Create(paths.TOPICS)) is not ZooKeeperError.SYSTEM_ERROR


async def ask_in_any_session(zookeeper: ZooKeeper, request: Request) -> Result:
    """The result, also across sessions: for reads, and for writes that belong to no session and may be made twice."""
    return await _repeated(zookeeper, request, zookeeper.submit(request))


async def read_each(zookeeper: ZooKeeper, requests: Sequence[Reading]) -> list[Result]:
    """The results, also across sessions. All requests are under way at once."""
    under_way = [zookeeper.submit(request) for request in requests]
    return [await _repeated(zookeeper, request, first) for request, first in zip(requests, under_way, strict=True)]


async def _repeated(zookeeper: ZooKeeper, request: Request, under_way: Promise[Result]) -> Result:
    result = await under_way
    while result in (ZooKeeperError.SESSION_EXPIRED, ZooKeeperError.CONNECTION_LOSS):
        result = await zookeeper.submit(request)
    return result


async def within(clock: Clock, timeout_ms: float, under_way: Promise[T]) -> T | None:
    """Waits for a value, `timeout_ms` at most; None when the time is over. The work itself goes on."""
    over: Promise[T | None] = Promise()

    def release(value: T | None) -> None:
        if not over.is_resolved:
            over.resolve(value)

    under_way.then(release)
    timer = clock.call_later(max(timeout_ms, 0), lambda: release(None))
    try:
        return await over
    finally:
        timer.cancel()
