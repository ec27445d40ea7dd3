"""`oncelog cluster convert`: give the data directory of a broker that does not run to another owner."""

from __future__ import annotations

import asyncio
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.needs import check_kazoo
from oncelog.cli.options import filled_path, named_values
from oncelog.cli.serve import broker_settings
from oncelog.cli.tables import note

if TYPE_CHECKING:
    from oncelog.cluster.conversion import Converted


class Owner(StrEnum):
    """The owner of the data directory."""

    ALONE = "alone"
    KAFKA = "kafka"


class NewOwner(StrEnum):
    """The owner that it gets."""

    MEMBER = "member"
    KAFKA = "kafka"


def convert(
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir",
            parser=filled_path,
            metavar="DIR",
            help="Where the broker keeps its data; for several, --set log.dirs=DIR,DIR.",
        ),
    ] = None,
    source: Annotated[
        Owner,
        typer.Option(
            "--from", help="The owner now: a broker that was alone, or a broker of Apache Kafka 3.9 with ZooKeeper."
        ),
    ] = Owner.ALONE,
    target: Annotated[
        NewOwner, typer.Option("--to", help="The owner afterwards; with kafka, the owner now is a member.")
    ] = NewOwner.MEMBER,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            parser=filled_path,
            metavar="FILE",
            help="The broker's settings in a properties file of Kafka's.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of the broker; a broker that was alone needs zookeeper.connect and broker.id. May be given again.",
        ),
    ] = None,
) -> None:
    """Turn the data directory of a broker that was stopped cleanly into that of a member of a cluster.

    A broker that was alone becomes the first broker of a new cluster. Its topics with their ids, settings and records, its producer
    ids, open transactions and committed offsets stay as they are, and the cluster's metadata is written to ZooKeeper. A broker of
    Apache Kafka 3.9 stays the member that it was, and so does a broker of oncelog that is given to Kafka (--to kafka): the next
    broker with its number goes on with the same replicas. A command that was interrupted is run again.
    """
    from oncelog.broker import Settings, log_directories
    from oncelog.cluster.conversion import ConversionRefusedError
    from oncelog.cluster.zookeeper.znodes import ZnodeError
    from oncelog.environment import DirectoryInUseError, DiskError

    try:
        given, remarks = broker_settings(config, named_values(settings or [], "--set"))
        for remark in remarks:
            note(remark)
        directories = [str(data_dir)] if data_dir is not None else log_directories(Settings(given))
        done = _converted(_absolute(directories), source, target, given)
    except (ConversionRefusedError, DirectoryInUseError, DiskError, ZnodeError) as error:
        raise CommandError(str(error), ExitStatus.FAILED) from error
    except ValueError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from error
    except OSError as error:
        raise CommandError(str(error), ExitStatus.UNREACHABLE) from error
    what = "is now" if done.is_new else "was already"
    whose = "of Apache Kafka " if target is NewOwner.KAFKA else ""
    where = ", ".join(directories)
    print(f"{where} {what} the data directory of broker {done.broker_id} {whose}in cluster {done.cluster_id}")
    print(f"topics: {done.topic_count}, partitions: {done.partition_count}")


def _absolute(directories: list[str]) -> list[str]:
    """Raises ValueError."""
    if not directories:
        raise ValueError("which directory? say it with --data-dir")
    for path in directories:
        if not os.path.isdir(path):
            raise ValueError(f"there is no directory {path}: name the data directory of the broker")
    return [os.path.abspath(path) for path in directories]


def _converted(directories: list[str], source: Owner, target: NewOwner, settings: dict[str, str]) -> Converted:
    from oncelog.server.conversion import convert_alone, convert_from_kafka, convert_to_kafka

    if target is NewOwner.KAFKA:
        if source is Owner.KAFKA:
            raise ValueError("--from kafka --to kafka changes nothing")
        return convert_to_kafka(directories)
    if source is Owner.KAFKA:
        return convert_from_kafka(directories)
    check_kazoo("cluster convert")
    return asyncio.run(convert_alone(directories, settings))
