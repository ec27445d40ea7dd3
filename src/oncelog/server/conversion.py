"""`oncelog cluster convert`: opens the directories of a stopped broker and a session with ZooKeeper, and converts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from oncelog.broker import Settings
from oncelog.broker.storage.journal import FILE_NAME
from oncelog.cluster.conversion import Converted, convert, read_left_alone
from oncelog.cluster.kafka_directories import give_to_kafka, take_from_kafka
from oncelog.cluster.zookeeper.session import ZooKeeperSessionState
from oncelog.coordination import start
from oncelog.environment import Disk
from oncelog.log import DataDirectory, LogDirectories
from oncelog.server.clock import RealRandom
from oncelog.server.disk import RealDisk

if TYPE_CHECKING:
    from oncelog.server.zookeeper import RealZooKeeper


def convert_from_kafka(paths: Sequence[str]) -> Converted:
    """Raises ConversionRefusedError, DirectoryInUseError and DiskError."""
    with _taken(paths) as (disk, directories):
        return take_from_kafka(disk, directories, RealRandom())


def convert_to_kafka(paths: Sequence[str]) -> Converted:
    """Raises ConversionRefusedError, DirectoryInUseError and DiskError."""
    with _taken(paths) as (disk, directories):
        return give_to_kafka(disk, directories)


@contextmanager
def _taken(paths: Sequence[str]) -> Iterator[tuple[Disk, list[DataDirectory]]]:
    def raise_it(error: BaseException) -> None:
        raise error

    with RealDisk(lambda callback: callback(), raise_it) as disk, ExitStack() as held:
        directories = []
        for path in paths:
            directory = DataDirectory(disk, path)
            held.callback(directory.release)
            directories.append(directory)
        yield disk, directories


async def convert_alone(paths: Sequence[str], settings: Mapping[str, str]) -> Converted:
    """Raises ConversionRefusedError, DirectoryInUseError, DiskError, ValueError, and OSError where ZooKeeper cannot be reached."""
    parsed = Settings(settings)
    if not parsed.is_in_cluster:
        raise ValueError("zookeeper.connect is missing: it says where the cluster is to keep its metadata")
    from oncelog.server.zookeeper import RealZooKeeper, parse_ensemble

    outcome: asyncio.Future[Converted] = asyncio.get_running_loop().create_future()

    def fail(error: BaseException) -> None:
        if not outcome.done():
            outcome.set_exception(error)

    def guard(callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told at the end
            fail(error)

    session_ms = parsed.number("zookeeper.session.timeout.ms")
    connection_ms = int(parsed.value("zookeeper.connection.timeout.ms") or session_ms)
    with RealDisk(guard, fail) as disk:
        directories = LogDirectories(disk, paths, FILE_NAME)
        try:
            found = read_left_alone(disk, directories, parsed)
            zookeeper = RealZooKeeper(
                parse_ensemble(parsed.text("zookeeper.connect")), session_ms, connection_ms, guard
            )
            try:
                await zookeeper.connected()
                _watch_over(zookeeper, connection_ms, fail)
                guard(lambda: start(convert(found, zookeeper)).then(outcome.set_result))
                return await outcome
            finally:
                zookeeper.close()
                await zookeeper.wait_closed()
        finally:
            directories.release()


def _watch_over(zookeeper: RealZooKeeper, patience_ms: int, fail: Callable[[BaseException], None]) -> None:
    """An ensemble that does not come back is waited for as long as at the beginning."""
    loop = asyncio.get_running_loop()
    silence: asyncio.TimerHandle | None = None

    def give_up() -> None:
        fail(OSError(f"ZooKeeper was lost, and has not come back in {patience_ms} ms: run this again when it is there"))

    def session_changed(state: ZooKeeperSessionState) -> None:
        nonlocal silence
        if silence is not None:
            silence.cancel()
        silence = None if state is ZooKeeperSessionState.CONNECTED else loop.call_later(patience_ms / 1000, give_up)

    zookeeper.on_session = session_changed
