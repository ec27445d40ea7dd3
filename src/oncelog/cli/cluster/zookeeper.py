"""`oncelog zookeeper`: the ZooKeeper server whose jars come with PySpark, for a cluster that has none yet."""

from __future__ import annotations

import os
import re
import socket
import struct
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from oncelog.cli.cluster.zookeeper_process import ZooKeeperProcess, java_command
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.needs import check_installed, needed_java
from oncelog.cli.options import filled_path, named_values
from oncelog.environment import DirectoryInUseError, DiskError
from oncelog.server.disk import RealLock
from oncelog.server.listening import parse_address

DEFAULT_LISTEN = "127.0.0.1:2181"
COMMAND = "zookeeper"
CONFIGURATION, MEMBER, LOCK = "zoo.cfg", "myid", "oncelog-zookeeper.lock"
DEFAULTS = {
    "tickTime": "2000",
    "initLimit": "10",
    "syncLimit": "5",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    "autopurge.purgeInterval": "24",
}
"""The values of ZooKeeper's and Kafka's sample files. The purge keeps the last three snapshots; ZooKeeper's default keeps all."""
OWN_OPTIONS = {"dataDir": "--data-dir", "clientPort": "--listen", "clientPortAddress": "--listen"}
FOUR_LETTER_WORDS = "4lw.commands.whitelist"
WORDS = "srvr, ruok"
SETTING_NAME = re.compile(r"[A-Za-z0-9._-]+")
MEMBER_ADDRESS = re.compile(r"server\.(\d+)")
JARS = ("zookeeper", "log4j", "slf4j-api", "metrics-core", "snappy-java", "netty", "commons-cli")
"""The jars of PySpark that a server loads. With all of them on its path Java takes twice as long to start it."""


def command(
    data_dir: Annotated[
        Path,
        typer.Option(
            "--data-dir", parser=filled_path, metavar="DIR", help="Where its data is kept; made if it is not there."
        ),
    ],
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where clients connect; port 0 takes a free one.")
    ] = DEFAULT_LISTEN,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of ZooKeeper's zoo.cfg, for example tickTime=500; may be given again.",
        ),
    ] = None,
    member: Annotated[
        int | None,
        typer.Option(
            "--id",
            metavar="N",
            min=1,
            max=255,
            help="Which member of an ensemble this is, whose members are given by --set server.N=HOST:PORT:PORT.",
        ),
    ] = None,
) -> None:
    """Run a ZooKeeper server until SIGTERM or Ctrl-C; both are a clean stop. It prints one line when it serves.

    A member of an ensemble serves as soon as a majority of them runs. Java's options can be given in SERVER_JVMFLAGS, as to
    ZooKeeper's own scripts.
    """
    check_installed(COMMAND)
    given = _checked(named_values(settings or [], "--set"))
    host, port = _address(listen)
    classpath = _classpath()
    java = needed_java().home / "bin" / "java"
    directory = data_dir.absolute()
    lock = _locked(directory)
    try:
        _say_which_member(directory, given, member)
        configuration = _written(directory, host, port, given)
        server = ZooKeeperProcess(java_command(java, classpath, configuration, os.environ), (host, port), lock)
        server.run(ready=f"ZooKeeper is ready on {listen.rpartition(':')[0] or host}:{port}, data in {directory}")
    finally:
        lock.release()


def _checked(settings: dict[str, str]) -> dict[str, str]:
    for name in settings:
        if not SETTING_NAME.fullmatch(name):
            raise CommandError(f"{name!r} is no name of a setting", ExitStatus.USAGE)
    for name, option in OWN_OPTIONS.items():
        if name in settings:
            raise CommandError(f"{name} is set by {option}", ExitStatus.USAGE)
    return settings


def _address(listen: str) -> tuple[str, int]:
    """A host and a port that is free. ZooKeeper itself has no port 0."""
    try:
        host, port = parse_address(listen)
    except ValueError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from error
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            return host, probe.getsockname()[1]
    except OSError as error:
        raise CommandError(f"cannot listen on {listen}: {error.strerror}", ExitStatus.FAILED) from error


def _classpath() -> str:
    """The jars of the PySpark that is installed. Raises CommandError where it brings none."""
    pyspark = find_spec("pyspark")
    assert pyspark is not None, "it was looked for before"
    assert pyspark.origin is not None, "a package has a file"
    directory = Path(pyspark.origin).with_name("jars")
    found = [str(jar) for name in JARS for jar in sorted(directory.glob(f"{name}-*.jar"))]
    if not any(Path(jar).name.startswith("zookeeper-") for jar in found):
        raise CommandError(
            f"there is no ZooKeeper in {directory}, where the whole PySpark has one: pip install 'oncelog[spark]'",
            ExitStatus.USAGE,
        )
    return os.pathsep.join(found)


def _locked(directory: Path) -> RealLock:
    """ZooKeeper itself would let two servers write into one directory."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return RealLock(str(directory / LOCK))
    except OSError as error:
        raise CommandError(f"{directory} cannot be used: {error.strerror}", ExitStatus.FAILED) from error
    except (DirectoryInUseError, DiskError) as error:
        raise CommandError(str(error), ExitStatus.FAILED) from error


def _say_which_member(directory: Path, settings: dict[str, str], member: int | None) -> None:
    """Write ZooKeeper's file myid. A directory is one member's for good: what it has voted is in there."""
    members = {int(match[1]) for name in settings if (match := MEMBER_ADDRESS.fullmatch(name))}
    file = directory / MEMBER
    before = file.read_text().strip() if file.exists() else ""
    if not members:
        if member is not None:
            raise CommandError("--id needs the ensemble's members: --set server.N=HOST:PORT:PORT", ExitStatus.USAGE)
        return
    if member is None and not before:
        raise CommandError("which of the ensemble's members is this one? say it with --id", ExitStatus.USAGE)
    if member is not None and before not in ("", str(member)):
        raise CommandError(f"{directory} belongs to member {before} of its ensemble", ExitStatus.USAGE)
    number = before or str(member)
    if number not in map(str, members):
        raise CommandError(f"member {number} has no address: give --set server.{number}=…", ExitStatus.USAGE)
    file.write_text(f"{number}\n")


def _written(directory: Path, host: str, port: int, given: dict[str, str]) -> Path:
    own = {
        "dataDir": str(directory),
        "clientPortAddress": host,
        "clientPort": str(port),
        FOUR_LETTER_WORDS: ", ".join((given[FOUR_LETTER_WORDS], WORDS)) if FOUR_LETTER_WORDS in given else WORDS,
    }
    lines = (f"{name}={_escaped(value)}\n" for name, value in (DEFAULTS | given | own).items())
    configuration = directory / CONFIGURATION
    configuration.write_text("".join(lines))
    return configuration


def _escaped(value: str) -> str:
    """As java.util.Properties reads it back, which takes a backslash for an escape and the file for Latin-1."""
    units = struct.unpack(f">{len(value.encode('utf-16-be')) // 2}H", value.encode("utf-16-be"))
    return "".join(chr(unit) if 32 <= unit < 127 and unit != ord("\\") else f"\\u{unit:04x}" for unit in units)
