"""Which groups and which partitions a command about groups means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from oncelog.cli.brokers import existing_topics, partitions_of
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.client import Client, GroupDescription, TopicPartition
from oncelog.client.descriptions import DEAD

TopicOption = Annotated[
    list[str],
    typer.Option(
        "--topic", metavar="TOPIC[:PARTITION,…]", help="A topic, or some of its partitions; may be given again."
    ),
]


def described_group(client: Client, name: str) -> GroupDescription:
    """Describe a group that must be there. Raises CommandError."""
    described = client.describe_group(name)
    if described.state == DEAD:
        raise CommandError(f"there is no group {name}", ExitStatus.REFUSED)
    return described


def chosen_partitions(client: Client, texts: Sequence[str]) -> list[TopicPartition]:
    """Read TOPIC[:PARTITION,…]. Raises CommandError for what is not there, typer.BadParameter for what is no number."""
    chosen: set[TopicPartition] = set()
    for text in texts:
        name, separator, numbers = text.partition(":")
        (topic,) = existing_topics(client, [name])
        known = partitions_of(topic)
        asked = [TopicPartition(name, _number(number)) for number in numbers.split(",")] if separator else known
        for partition in asked:
            if partition not in known:
                raise CommandError(f"topic {name} has no partition {partition.partition}", ExitStatus.REFUSED)
        chosen.update(asked)
    return sorted(chosen)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is no partition", param_hint="--topic")
    return int(text)
