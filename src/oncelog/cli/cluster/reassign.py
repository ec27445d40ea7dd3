"""`oncelog cluster reassign`: which brokers have the replicas of partitions."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oncelog.cli.brokers import connect, reach
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.options import INT16_MAX, BootstrapServer, Config, filled_path
from oncelog.cli.tables import print_table
from oncelog.client import TopicPartition

if TYPE_CHECKING:
    from oncelog.client import Client

LOOK_SECONDS = 0.3
METADATA_SECONDS = 10.0
Replicas = Mapping[TopicPartition, tuple[int, ...]]


def reassign(
    brokers: Annotated[
        str | None,
        typer.Option("--brokers", metavar="N,N,…", help="The brokers that get the replicas, in equal shares."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--reassignment-json-file",
            parser=filled_path,
            metavar="FILE",
            help="The brokers of each partition, in the format of Kafka's kafka-reassign-partitions.",
        ),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", metavar="TOPIC", help="With --brokers: only this topic; may be given again.", show_default="all"
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            metavar="N",
            min=1,
            max=INT16_MAX,
            help="With --brokers: how many replicas each partition gets.",
            show_default="as many as it has",
        ),
    ] = None,
    bootstrap_server: BootstrapServer = None,
    config: Config = None,
) -> None:
    """Move the replicas of partitions to other brokers, and wait until the new replicas are in sync and the old ones are gone.

    With --brokers all partitions are moved, with a file the partitions that it names. A reassignment goes on when the command is
    interrupted.
    """
    if (brokers is None) == (file is None):
        raise CommandError("give either --brokers or --reassignment-json-file", ExitStatus.USAGE)
    with connect(reach(bootstrap_server, config)) as client:
        if file is not None:
            wanted = read_plan(file)
        else:
            wanted = _in_equal_shares(client, _numbers(brokers or ""), topics or [], replication_factor)
        before = _replicas(client, wanted)
        client.reassign_partitions({one: replicas for one, replicas in wanted.items() if before.get(one) != replicas})
        while client.partition_reassignments().keys() & wanted.keys():
            time.sleep(LOOK_SECONDS)
        # The metadata of the broker that answers may be older.
        deadline = time.monotonic() + METADATA_SECONDS
        while (after := _replicas(client, wanted)) != wanted and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
    others = [one for one, replicas in wanted.items() if after.get(one) != replicas]
    if others:
        raise CommandError(
            f"partition {others[0].topic}-{others[0].partition} has other replicas than were wanted: somebody else has "
            "changed or ended its reassignment",
            ExitStatus.REFUSED,
        )
    print_table(("topic", "partitions", "brokers"), _rows(wanted))


def _rows(wanted: Replicas) -> list[dict[str, object]]:
    """A row for each topic: how many partitions were reassigned, and to which brokers."""
    rows: list[dict[str, object]] = []
    for topic in dict.fromkeys(one.topic for one in wanted):
        replicas = [found for one, found in wanted.items() if one.topic == topic]
        brokers = sorted({number for found in replicas for number in found})
        rows.append({"topic": topic, "partitions": len(replicas), "brokers": ",".join(map(str, brokers))})
    return rows


def read_plan(file: Path) -> dict[TopicPartition, tuple[int, ...]]:
    """Raises CommandError."""
    try:
        plan: Any = json.loads(file.read_text())
        return {
            TopicPartition(str(one["topic"]), int(one["partition"])): tuple(map(int, one["replicas"]))
            for one in plan["partitions"]
        }
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror}", ExitStatus.USAGE) from error
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(
            f'{file} is no plan: it has to be {{"version":1,"partitions":[{{"topic":"t","partition":0,"replicas":[1,2]}}]}}',
            ExitStatus.USAGE,
        ) from error


def _numbers(text: str) -> list[int]:
    try:
        return list(dict.fromkeys(int(number) for number in text.split(",")))
    except ValueError as error:
        raise CommandError(
            f"{text!r} is no list of brokers: give numbers, for example 1,2,3", ExitStatus.USAGE
        ) from error


def _replicas(client: Client, wanted: Replicas) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas of these partitions now."""
    described = client.metadata(sorted({one.topic for one in wanted})) if wanted else {}
    found = {
        TopicPartition(name, item.partition): tuple(item.replicas)
        for name, topic in described.items()
        for item in topic.partitions
    }
    return {one: found[one] for one in wanted if one in found}


def _in_equal_shares(
    client: Client, brokers: list[int], topics: list[str], replication_factor: int | None
) -> dict[TopicPartition, tuple[int, ...]]:
    """As Kafka places new topics. Raises CommandError."""
    from oncelog.cluster.controller.placement import place
    from oncelog.cluster.controller.values import ApiError

    alive = {node.node_id: node.rack for node in client.describe_cluster().nodes}
    missing = [number for number in brokers if number not in alive]
    if missing:
        raise CommandError(f"broker {missing[0]} is not alive: those that are are {sorted(alive)}", ExitStatus.USAGE)
    racks = {number: alive[number] for number in brokers}
    wanted: dict[TopicPartition, tuple[int, ...]] = {}
    for start, (name, topic) in enumerate(sorted(client.metadata(topics or None).items())):
        factor = replication_factor or max((len(item.replicas) for item in topic.partitions), default=1)
        placed = place(
            racks, len(topic.partitions), factor, start_index=start % len(brokers), replica_shift=start % len(brokers)
        )
        if isinstance(placed, ApiError):
            raise CommandError(
                f"topic {name} has no room: {placed.message} Give --replication-factor", ExitStatus.USAGE
            )
        wanted |= {TopicPartition(name, index): tuple(replicas) for index, replicas in placed.items()}
    return wanted
