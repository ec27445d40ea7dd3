"""`oncelog cluster user`: who may log in by SCRAM. It is written to ZooKeeper, so that brokers find it when they first meet."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from oncelog.cli.cluster.session import ZooKeeperConnect, in_session
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.needs import check_kazoo
from oncelog.security.scram import ITERATIONS_MIN, ScramCredential
from oncelog.security.values import Scram

SALT_BYTES = 20
ITERATIONS_MAX = 16_384
"""Kafka's limit. Brokers that log in compute so long, and serve nobody else meanwhile."""


def user(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The user.")],
    zookeeper: ZooKeeperConnect,
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
    check_kazoo("cluster user")
    if not name:
        raise CommandError("a user has a name", ExitStatus.USAGE)
    credential = None
    if not remove:
        credential = ScramCredential.of_password(mechanism, _password(), os.urandom(SALT_BYTES), iterations)
    had_one = _change(zookeeper, name, mechanism, credential)
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


def _change(connect: str, name: str, mechanism: Scram, credential: ScramCredential | None) -> bool:
    from oncelog.cluster.scram_users import change_user

    had_one = in_session(connect, lambda zookeeper: change_user(zookeeper, name, mechanism, credential))
    if had_one is None:
        raise CommandError("the session with ZooKeeper ended: whether it was changed is not known", ExitStatus.UNKNOWN)
    return had_one
