"""`oncelog topics move`: move partitions to another log directory of the broker that has them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from oncelog.cli.brokers import chosen_partitions, connect, existing_topics, reach
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.options import INT32_MAX, BootstrapServer, Config, Json, filled
from oncelog.cli.tables import print_rows
from oncelog.client import Client, ReplicaLog, TopicPartition

POLL_SECONDS = 0.25
COLUMNS = ("topic", "partition", "broker", "log_directory", "moves_to", "bytes", "lag")


def move(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            parser=filled,
            metavar="DIRECTORY",
            help="The log directory; its path may be relative to the current directory.",
        ),
    ],
    partition: Annotated[
        list[int] | None,
        typer.Option("-p", "--partition", min=0, max=INT32_MAX, help="This partition alone; may be given again."),
    ] = None,
    broker: Annotated[
        int | None,
        typer.Option(
            "--broker",
            min=0,
            max=INT32_MAX,
            help="The replicas of this broker.",
            show_default="the only one that has the directory",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the moves are done.")] = True,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Move partitions to another log directory of their broker, which serves them meanwhile, and show where they are.

    A move goes on without the command, and after a restart of the broker too. A move to the current directory cancels one that is
    under way.
    """
    with connect(reach(bootstrap_server, config)) as client:
        (topic,) = existing_topics(client, [name])
        partitions = chosen_partitions(topic, partition)
        to, brokers = _found(client, to)
        node = _the_only(brokers, to) if broker is None else broker
        client.move_replica_logs(node, dict.fromkeys(partitions, to))
        logs = _logs_of(client, node, partitions)
        while wait and any(log.is_future for log in logs):
            time.sleep(POLL_SECONDS)
            logs = _logs_of(client, node, partitions)
    rows = _rows(partitions, logs)
    print_rows(COLUMNS, rows, as_json=as_json)
    elsewhere = [row for row in rows if to not in (row["log_directory"], row["moves_to"])]
    if elsewhere:
        raise CommandError(
            f"{name}-{elsewhere[0]['partition']} did not get to {to}: the log of broker {node} says why",
            ExitStatus.FAILED,
        )


def _found(client: Client, path: str) -> tuple[str, list[int]]:
    """The log directory as brokers name it, and the brokers that have it. Raises CommandError if none has.

    A broker that was started with a relative path names the absolute one.
    """
    found = client.log_directories()
    for name in (path, os.path.abspath(path)):
        brokers = sorted(broker for broker, paths in found.items() if name in paths)
        if brokers:
            return name, brokers
    paths = ", ".join(sorted({path for paths in found.values() for path in paths}))
    raise CommandError(f"there is no log directory {path}: there are {paths}", ExitStatus.REFUSED)


def _the_only(brokers: Sequence[int], path: str) -> int:
    """Raises CommandError where several have the log directory."""
    if len(brokers) > 1:
        numbers = ", ".join(map(str, brokers))
        raise CommandError(f"brokers {numbers} have a log directory {path}: name one with --broker", ExitStatus.USAGE)
    return brokers[0]


def _logs_of(client: Client, broker: int, partitions: Sequence[TopicPartition]) -> list[ReplicaLog]:
    return [log for log in client.describe_replica_logs(partitions) if log.broker == broker]


def _rows(partitions: Sequence[TopicPartition], logs: Sequence[ReplicaLog]) -> list[dict[str, object]]:
    futures = {log.partition: log for log in logs if log.is_future}
    return [
        {
            "topic": log.partition.topic,
            "partition": log.partition.partition,
            "broker": log.broker,
            "log_directory": log.directory,
            "moves_to": futures[log.partition].directory if log.partition in futures else None,
            "bytes": log.size_bytes,
            "lag": futures[log.partition].offset_lag if log.partition in futures else 0,
        }
        for log in sorted(logs, key=lambda log: log.partition)
        if not log.is_future and log.partition in partitions
    ]
