"""`oncelog cluster user`: write the SCRAM credentials of a user to ZooKeeper, where brokers look before they serve anybody."""

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
"""Kafka's limit. A broker computes that long for each log-in, and serves nobody meanwhile."""


def user(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The user.")],
    zookeeper: ZooKeeperConnect,
    mechanism: Annotated[Scram, typer.Option("--mechanism", help="How the user logs in.")] = Scram.SHA_512,
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations",
            min=ITERATIONS_MIN,
            max=ITERATIONS_MAX,
            help="The cost of one try of a password.",
        ),
    ] = ITERATIONS_MIN,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the password: the user cannot log in any more.")
    ] = False,
) -> None:
    """Set the SCRAM password of a user. It is a line of standard input, or is typed on the terminal without being shown.

    The credentials are kept in ZooKeeper in Kafka's format, for all brokers of the cluster. Open connections stay open.
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
        raise CommandError("the session with ZooKeeper ended: the password may have changed or not", ExitStatus.UNKNOWN)
    return had_one
