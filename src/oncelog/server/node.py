"""A broker on a socket of this machine: `oncelog.Broker` in a program of yours, `oncelog serve` as a process."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import combinations, count
from types import TracebackType
from typing import TYPE_CHECKING, Self

from oncelog.broker import BrokerCore as BrokerCore
from oncelog.broker import (
    Endpoint,
    Environment,
    Readiness,
    Settings,
    StartReport,
    advertised_endpoints,
    log_directories,
)
from oncelog.security.principals import ANONYMOUS, user
from oncelog.server.admission import Admission, Listening
from oncelog.server.clock import RealClock, RealRandom
from oncelog.server.connection import Connection, Handler
from oncelog.server.connections import Connections, IdleConnections
from oncelog.server.descriptors import descriptor_budget
from oncelog.server.disk import RealDisk
from oncelog.server.listening import (
    PLAINTEXT,
    bind,
    bind_all,
    close_all,
    context_of,
    link_security,
    listeners_of,
    parse_address,
    reachable,
    security_of,
)
from oncelog.server.memory import MemoryBudget
from oncelog.server.process_memory import give_back_freed_memory
from oncelog.server.receive_buffer import ReceiveBuffer
from oncelog.server.workers import WorkerThreads

if TYPE_CHECKING:
    from oncelog.broker.metadata import NewMetadata
    from oncelog.server.metrics import MetricsListener
    from oncelog.server.zookeeper import RealZooKeeper

logger = logging.getLogger("oncelog.broker")


class Broker:
    """A transactional broker inside an asyncio program, as an asynchronous context manager.

    `listen` is HOST:PORT, where port 0 takes a free one; without it the setting listeners counts, or a free port of this
    machine. Without `data_dir`, log.dirs and log.dir the log lives in a temporary directory that is removed at the end.
    Settings have Kafka's names, either in `settings` or as arguments with underscores for dots:
    `Broker(num_partitions=4, log_dirs="/a,/b")`; a name that has dots is taken as it is.

    Entering raises DirectoryInUseError, DiskError, ValueError for a wrong
    setting, and OSError for an address that cannot be had.
    """

    def __init__(
        self,
        *,
        data_dir: str | None = None,
        listen: str | None = None,
        settings: Mapping[str, str] | None = None,
        **more_settings: str | int | bool,
    ) -> None:
        self._settings = dict(settings or {}) | {
            name if "." in name else name.replace("_", "."): str(value).lower()
            if isinstance(value, bool)
            else str(value)
            for name, value in more_settings.items()
        }
        self._parsed = Settings(self._settings)
        self._log_dirs = log_directories(self._parsed, data_dir)
        self._directories = _apart(self._log_dirs)
        self._listen = listen
        self._endpoints = listeners_of(listen, self._parsed)
        self._security = {one.name: security_of(self._parsed, one) for one in self._endpoints}
        self._contexts = {name: context_of(security) for name, security in self._security.items()}
        self._link_security = link_security(self._parsed, self._endpoints)
        self._connections = Connections()
        self._failure: asyncio.Future[BaseException] | None = None
        self._zookeeper: RealZooKeeper | None = None
        self._metrics: MetricsListener | None = None
        self._has_stopped = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """The value for a client's `bootstrap.servers`: the first listener's address."""
        return reachable(self._endpoints[0]).address

    @property
    def whereabouts(self) -> str:
        """The text that tells the user where the broker listens."""
        only = self._endpoints[0]
        if len(self._endpoints) == 1 and only.protocol == PLAINTEXT:
            return self.bootstrap_servers
        return " and ".join(map(str, self.endpoints))

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """The addresses of the listeners. Ports that were 0 are known after the start."""
        return [reachable(endpoint) for endpoint in self._endpoints]

    @property
    def log_dirs(self) -> list[str]:
        """The directories that the log is kept in; none if that is a temporary one."""
        return self._log_dirs

    @property
    def start_report(self) -> StartReport:
        return self._core.start_report

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._failure = loop.create_future()
        self._has_stopped = False
        # Before anything is loaded: an address that is taken must not cost the replay of a log.
        sockets = bind_all(self._endpoints, self._parsed)
        ports = [one.getsockname()[1] for one in sockets]
        self._endpoints = tuple(replace(one, port=port) for one, port in zip(self._endpoints, ports, strict=True))
        self._bind_metrics(sockets)
        self._temporary = None if self._log_dirs else tempfile.mkdtemp(prefix="oncelog-")
        budget = descriptor_budget()
        self._disk = RealDisk(partial(self._call_in, loop), self._bug, open_files_max=budget.files)
        self._workers = WorkerThreads(partial(self._call_in, loop), self._bug)
        try:
            new_metadata = await self._new_metadata(loop)
        except BaseException:
            close_all(sockets)
            self._discard()
            raise
        environment = Environment(RealClock(loop, self._guard), self._disk, self._workers, RealRandom(), new_metadata)
        directories = [self._temporary] if self._temporary else self._directories
        try:
            self._core = BrokerCore(
                environment,
                directories,
                self._settings | self._as_settings(directories),
                self._fail,
                in_turns=True,
                own_principal=None if self._link_security is None else self._link_security.principal,
            )
        except BaseException:
            close_all(sockets)
            if self._zookeeper is not None:
                self._zookeeper.close()
            self._discard()
            raise
        self._core.serve_at(self._advertised())
        self._memory = MemoryBudget(
            loop,
            self._guard,
            self._core.settings.number("queued.max.request.bytes"),
            kept_bytes=lambda: self._core.fetch_sessions.kept_bytes,
            give_back=give_back_freed_memory,
        )
        self._admission = Admission(loop, self._listening(sockets), self._core.settings, budget.connections)
        self._idle = IdleConnections(
            loop, self._connections, self._core.settings.number("connections.max.idle.ms") / 1000
        )
        try:
            await self._loaded()
            if self._metrics is not None:
                await self._metrics.start()
        except BaseException:
            await self._give_up_start()
            raise
        only = self._endpoints[0]
        if self._parsed.is_in_cluster and len(self._endpoints) == 1 and not self._security[only.name].asks:
            logger.warning(
                "brokers and clients share the listener %s, which authenticates nobody: any client can send the requests of "
                "brokers; give brokers a listener of their own, and name it with inter.broker.listener.name",
                only.name,
            )
        report = self._core.start_report
        logger.info(
            "node %d is ready on %s, with its log in %s",
            self._core.node_id,
            self.whereabouts,
            ", ".join(directories),
        )
        if not report.was_clean and report.bytes_read:
            logger.info(
                "it was not stopped cleanly before: %d bytes of %d partitions were read again, %d torn bytes cut off, "
                "%d hanging transactions ended",
                report.bytes_read,
                report.partitions_read,
                report.bytes_cut,
                report.hanging_transactions,
            )

    def _bind_metrics(self, others: Sequence[socket.socket]) -> None:
        """Raises OSError for an address that cannot be had."""
        where = self._parsed.value("prometheus.listener")
        if where is None:
            return
        from oncelog.server.metrics import MetricsListener

        try:
            bound = bind(*parse_address(str(where)), self._parsed)
        except OSError:
            close_all(others)
            raise
        self._metrics = MetricsListener(bound, lambda: self._core.metrics(), self._bug)

    async def _new_metadata(self, loop: asyncio.AbstractEventLoop) -> NewMetadata:
        """The journal of a broker that is alone, or a session with ZooKeeper.

        Raises OSError if ZooKeeper cannot be reached, and ValueError.
        """
        if not self._parsed.is_in_cluster:
            from oncelog.broker.journal_metadata import JournalMetadata

            return JournalMetadata
        # Only now: a broker that is alone needs none of it.
        from oncelog.cluster.zookeeper_metadata import ZooKeeperMetadata
        from oncelog.server.network import SocketNetwork

        try:
            from oncelog.server.zookeeper import RealZooKeeper, parse_ensemble
        except ImportError as missing:
            raise ValueError(str(missing)) from missing

        network = SocketNetwork(
            loop,
            self._guard,
            self._link_security,
            receive_buffer_bytes=self._parsed.number("replica.socket.receive.buffer.bytes"),
        )
        session_ms = self._parsed.number("zookeeper.session.timeout.ms")
        connection_ms = self._parsed.value("zookeeper.connection.timeout.ms") or session_ms
        ensemble = parse_ensemble(self._parsed.text("zookeeper.connect"))
        zookeeper = self._zookeeper = RealZooKeeper(ensemble, session_ms, int(connection_ms), self._guard)
        try:
            await zookeeper.connected()
        except BaseException:
            zookeeper.close()
            raise
        return partial(ZooKeeperMetadata, zookeeper, network)

    async def _loaded(self) -> None:
        """Wait until the broker is loaded. It answers clients meanwhile, as far as it can. Raises the error that stops
        it; may be cancelled.
        """
        assert self._failure is not None, "the broker is started"
        loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._core.progress.until(Readiness.COORDINATORS).then(loaded.set_result)
        await asyncio.wait((loaded, self._failure), return_when=asyncio.FIRST_COMPLETED)
        if not loaded.done():
            raise self._failure.result()

    async def _give_up_start(self) -> None:
        self._hang_up()
        self._core.give_up_start()
        self._has_stopped = True
        await self._leave_cluster()
        self._discard()

    async def stop(self) -> None:
        """Close the listener and the connections, then the log, which blocks on the disk.

        In a cluster others lead first what this broker leads, as far as there are any. Where it is cancelled it waits for nobody
        any more, and the broker has stopped nevertheless.
        """
        try:
            await self._handed_over()
        finally:
            self._hang_up()
            try:
                await self._connections.closed()
            finally:
                self._core.stop()
                self._has_stopped = True
                try:
                    await self._leave_cluster()
                finally:
                    self._discard()
        if self.error is None:
            logger.info("node %d has stopped cleanly", self._core.node_id)

    async def _handed_over(self) -> None:
        """Clients and brokers are served meanwhile. A broker that fails now has nothing to hand on any more."""
        assert self._failure is not None, "the broker was started"
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._core.hand_over().then(over.set_result)
        await asyncio.wait((over, self._failure), return_when=asyncio.FIRST_COMPLETED)

    async def _leave_cluster(self) -> None:
        """With its session go the broker's entry and, if it is the controller, that."""
        if self._zookeeper is not None:
            self._zookeeper.close()
            await self._zookeeper.wait_closed()
            self._zookeeper = None

    def _hang_up(self) -> None:
        self._close_metrics()
        self._idle.stop()
        self._memory.stop()
        self._admission.stop()
        self._connections.close()

    async def failure(self) -> BaseException:
        """Wait for the error that ends this broker: a disk that does not keep what it was given, or a bug."""
        assert self._failure is not None, "the broker was not started"
        return await asyncio.shield(self._failure)

    def _close_metrics(self) -> None:
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None

    def _discard(self) -> None:
        self._close_metrics()
        self._workers.stop()
        self._disk.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _listening(self, sockets: Sequence[socket.socket]) -> list[Listening]:
        buffer = ReceiveBuffer()
        numbers = count(1)
        return [
            Listening(one, self._connections_maker(endpoint, buffer, numbers), self._contexts[endpoint.name])
            for one, endpoint in zip(sockets, self._endpoints, strict=True)
        ]

    def _connections_maker(
        self, endpoint: Endpoint, buffer: ReceiveBuffer, numbers: Iterator[int]
    ) -> Callable[[], Connection]:
        core, security = self._core, self._security[endpoint.name]
        request_bytes_max = core.settings.number("socket.request.max.bytes")
        first_bytes_max = core.settings.number("sasl.server.max.receive.size")

        def opened(connection: Connection) -> None:
            if security.asks:
                connection.principal = ANONYMOUS
            if security.has_principals_of_certificates:
                # Only now: it takes a while, and most brokers have no such listener.
                from oncelog.security.principals import principal_of

                connection.principal = principal_of(connection.certificate)
            self._connections.add(connection)

        def make(handler: Handler, bytes_max: int) -> Connection:
            return Connection(
                next(numbers),
                endpoint.name,
                handler,
                bytes_max,
                buffer,
                self._memory,
                opened,
                self._closed,
                self._bug,
            )

        def make_with_sasl() -> Connection:
            def complete(username: str) -> None:
                connection.principal = user(username)
                connection.serve_with(core.receive, request_bytes_max)

            connection = make(core.new_authenticator(security, complete).receive, first_bytes_max)
            return connection

        return make_with_sasl if security.mechanisms else partial(make, core.receive, request_bytes_max)

    def _closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._core.connection_closed(connection)
        self._admission.closed(connection)

    def _as_settings(self, directories: list[str]) -> dict[str, str]:
        """The address and the directories as settings, where they are not from settings: DescribeConfigs tells them."""
        found = {}
        if self._listen is not None or "listeners" not in self._parsed.given:
            found["listeners"] = str(self._endpoints[0])
        if self._log_dirs != log_directories(self._parsed) or not self._log_dirs:
            found["log.dirs"] = ",".join(directories)
        return found

    def _advertised(self) -> Sequence[Endpoint]:
        """The addresses that clients are given."""
        return advertised_endpoints(self._parsed) or self.endpoints

    def _guard(self, callback: Callable[[], None]) -> None:
        """Run what the clock or the disk calls back: the event loop would log an error and go on without the answer."""
        if self._has_stopped:
            return
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - a disk that fails, or a bug: either way the broker must not go on
            self._core.fail(error)

    def _call_in(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        """Called on other threads. Nobody waits for a callback any more where a start was given up, and the loop is closed."""
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._guard, callback)

    def _bug(self, error: BaseException) -> None:
        self._core.fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._failure is not None and not self._failure.done():
            # A start that fails may have no number yet.
            logger.info("the broker stops: %s", error)
            self._failure.set_result(error)

    @property
    def error(self) -> BaseException | None:
        """The error that has ended this broker, also one that came while it stopped: the stop was no clean one then."""
        return self._failure.result() if self._failure is not None and self._failure.done() else None


def _apart(log_dirs: list[str]) -> list[str]:
    """Their absolute paths. Raises ValueError if two of them are the same directory, or one is in another."""
    for one, other in combinations(log_dirs, 2):
        shorter, longer = sorted((os.path.realpath(one), os.path.realpath(other)), key=len)
        if shorter == longer:
            raise ValueError(f"log.dirs={','.join(log_dirs)} is not allowed: {one} and {other} are the same directory")
        if os.path.commonpath((shorter, longer)) == shorter:
            raise ValueError(f"log.dirs={','.join(log_dirs)} is not allowed: {longer} is inside {shorter}")
    return [os.path.abspath(path) for path in log_dirs]
