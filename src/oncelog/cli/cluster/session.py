"""A session with the ZooKeeper of a cluster, for one command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from oncelog.cli.exits import CommandError, ExitStatus

if TYPE_CHECKING:
    from oncelog.cluster.zookeeper.session import ZooKeeper

T = TypeVar("T")
SESSION_MS, CONNECT_MS = 6_000, 10_000

ZooKeeperConnect = Annotated[
    str,
    typer.Option("--zookeeper", metavar="HOST:PORT/chroot", help="The value of zookeeper.connect of the brokers."),
]


def in_session(connect: str, work: Callable[[ZooKeeper], Coroutine[Any, Any, T]]) -> T | None:
    """Return the result of the work; None if the session ended before it.

    Raises the CommandError of the work, and one if ZooKeeper cannot be reached.
    """
    done = asyncio.run(_in_session(connect, work))
    if isinstance(done, CommandError):
        raise done
    return done


async def _in_session(connect: str, work: Callable[[ZooKeeper], Coroutine[Any, Any, T]]) -> T | CommandError | None:
    from oncelog.cluster.zookeeper.asking import SessionEndedError
    from oncelog.coordination import start
    from oncelog.server.zookeeper import RealZooKeeper, ZooKeeperUnreachableError, parse_ensemble

    done: asyncio.Future[T | CommandError | None] = asyncio.get_running_loop().create_future()

    async def until_done() -> T | CommandError | None:
        try:
            return await work(client)
        except SessionEndedError:
            return None
        except CommandError as error:
            return error

    try:
        client = RealZooKeeper(parse_ensemble(connect), SESSION_MS, CONNECT_MS, lambda callback: callback())
    except ValueError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from error
    try:
        await client.connected()
        start(until_done()).then(done.set_result)
        return await done
    except ZooKeeperUnreachableError as error:
        raise CommandError(str(error), ExitStatus.UNREACHABLE) from error
    finally:
        client.close()
        await client.wait_closed()
