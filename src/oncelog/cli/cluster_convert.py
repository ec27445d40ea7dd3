"""`oncelog cluster convert`: the data directory of a broker that was alone becomes that of the first broker of a cluster."""

from __future__ import annotations

import asyncio
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.options import named_values
from oncelog.cli.serve import broker_settings


def convert(
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir", metavar="DIR", help="Where the broker keeps its data; for several, --set log.dirs=DIR,DIR."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The broker's settings in a properties file of Kafka's."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of the broker; zookeeper.connect and broker.id are needed. May be given again.",
        ),
    ] = None,
) -> None:
    """Make the data directory of a broker that was alone that of the first broker of a new cluster.

    The broker was stopped cleanly before. Its topics with their ids, settings and records, the producer ids, the open transactions
    and the committed offsets stay as they are; what a cluster keeps in ZooKeeper is written there. Interrupted at any
    moment, it is run again. Afterwards the broker is started with the same zookeeper.connect and broker.id.
    """
    if find_spec("kazoo") is None:
        raise CommandError("cluster convert needs kazoo: pip install 'oncelog[cluster]'", ExitStatus.USAGE)
    from oncelog.broker import Settings, log_directories
    from oncelog.broker.cluster.left_alone import ConversionRefusedError
    from oncelog.environment import DirectoryInUseError, DiskError
    from oncelog.server.conversion import convert_directories
    from oncelog.server.zookeeper import ZooKeeperUnreachableError
    from oncelog.zookeeper.znodes import ZnodeError

    try:
        given = broker_settings(config, named_values(settings or [], "--set"))
        directories = [str(data_dir)] if data_dir is not None else log_directories(Settings(given))
        if not directories:
            raise ValueError("which directory? say it with --data-dir")
        for path in directories:
            if not os.path.isdir(path):
                raise ConversionRefusedError(f"there is no directory {path}: name the data directory of the broker")
        done = asyncio.run(convert_directories(list(map(os.path.abspath, directories)), given))
    except (ConversionRefusedError, DirectoryInUseError, DiskError, ZnodeError) as error:
        raise CommandError(str(error), ExitStatus.FAILED) from error
    except ZooKeeperUnreachableError as error:
        raise CommandError(str(error), ExitStatus.UNREACHABLE) from error
    except ValueError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from error
    except OSError as error:
        raise CommandError(str(error), ExitStatus.FAILED) from error
    what = "is now" if done.is_news else "was already"
    print(f"{', '.join(directories)} {what} the data directory of broker {done.broker_id} of cluster {done.cluster_id}")
    print(f"topics: {done.topic_count}, partitions: {done.partition_count}")
