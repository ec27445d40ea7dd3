"""Asking ZooKeeper until it has answered."""

from __future__ import annotations

from oncelog.zookeeper.session import Request, Result, ZooKeeper, ZooKeeperError


class SessionEndedError(Exception):
    """The session expired, or the client was closed, while a request was under way: what it was for is void."""


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
