"""`oncelog cluster user`: who may log in by SCRAM. It is written to ZooKeeper, so that brokers find it when they first meet."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.security.kinds import Scram
from oncelog.security.scram import ITERATIONS_MIN
from oncelog.security.scram_server import ScramCredential

SALT_BYTES = 20
ITERATIONS_MAX = 16_384
"""Kafka's limit. Brokers that log in compute so long, and serve nobody else meanwhile."""
SESSION_MS, CONNECT_MS = 6_000, 10_000


def user(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The user.")],
    zookeeper: Annotated[
        str,
        typer.Option("--zookeeper", metavar="HOST:PORT/chroot", help="What the brokers have as zookeeper.connect."),
    ],
    mechanism: Annotated[Scram, typer.Option("--mechanism", help="How the user logs in.")] = Scram.SHA_512,
    iterations: Annotated[
        int,
        typer.Option("--iterations", min=ITERATIONS_MIN, max=ITERATIONS_MAX, help="What it costs to try one password."),
    ] = ITERATIONS_MIN,
    remove: Annotated[bool, typer.Option("--remove", help="Let the user log in no more.")] = False,
) -> None:
    """Give a user a password for SCRAM, or another one: a line of standard input, or what is typed, which is not shown.

    It is kept in ZooKeeper as Kafka keeps it, for all brokers of the cluster. Connections that are open stay so.
    """
    if find_spec("kazoo") is None:
        raise CommandError("cluster user needs kazoo: pip install 'oncelog[cluster]'", ExitStatus.USAGE)
    if not name:
        raise CommandError("a user has a name", ExitStatus.USAGE)
    credential = None
    if not remove:
        credential = ScramCredential.of_password(mechanism, _password(), os.urandom(SALT_BYTES), iterations)
    had_one = asyncio.run(_change(zookeeper, name, mechanism, credential))
    if remove and not had_one:
        raise CommandError(f"there is no user {name} of {mechanism}", ExitStatus.REFUSED)
    if remove:
        print(f"user {name} has no password for {mechanism} any more")
    else:
        print(f"user {name} has {'another' if had_one else 'a'} password for {mechanism}")


def _password() -> str:
    if sys.stdin.isatty():
        found: str = typer.prompt("password", hide_input=True, confirmation_prompt=True)
    else:
        found = sys.stdin.readline().rstrip("\r\n")
    if not found:
        raise CommandError("the password is empty", ExitStatus.USAGE)
    return found


async def _change(connect: str, name: str, mechanism: Scram, credential: ScramCredential | None) -> bool:
    from oncelog.broker.cluster.asking import SessionEndedError
    from oncelog.broker.cluster.scram_credentials import change_user
    from oncelog.coordination import start
    from oncelog.server.zookeeper import RealZooKeeper, ZooKeeperUnreachableError, parse_ensemble

    changed: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()

    async def change() -> bool | None:
        try:
            return await change_user(client, name, mechanism, credential)
        except SessionEndedError:
            return None

    try:
        client = RealZooKeeper(parse_ensemble(connect), SESSION_MS, CONNECT_MS, lambda callback: callback())
    except ValueError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from error
    try:
        await client.connected()
        start(change()).then(changed.set_result)
        had_one = await changed
    except ZooKeeperUnreachableError as error:
        raise CommandError(str(error), ExitStatus.UNREACHABLE) from error
    finally:
        client.close()
        await client.wait_closed()
    if had_one is None:
        raise CommandError("the session with ZooKeeper ended: whether it was changed is not known", ExitStatus.UNKNOWN)
    return had_one
