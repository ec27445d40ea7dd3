"""`oncelog cluster start`: ZooKeeper and brokers on this machine, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import signal
from collections import defaultdict
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Annotated

import typer

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.needs import check_installed, check_kazoo, needed_java
from oncelog.cli.options import filled_path, named_values
from oncelog.cli.tables import note
from oncelog.server.local_cluster import ClusterPlan, LocalCluster
from oncelog.server.member_process import Complained, Ended, Event, MemberError, MemberProcess, Ready

DEFAULT_LISTEN = "127.0.0.1:9092"
ZOOKEEPER_PORT = 2181
LOOK_SECONDS = 0.03


class StopRequested:
    """A signal asked for a stop."""


def start(
    data_dir: Annotated[
        Path,
        typer.Option(
            "--data-dir",
            parser=filled_path,
            metavar="DIR",
            help="Where ZooKeeper and the brokers keep their data; made if it is not there.",
        ),
    ],
    brokers: Annotated[int, typer.Option("--brokers", metavar="N", min=1, help="How many brokers.")] = 3,
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Where broker 1 listens; the others have the ports after it. Port 0 takes free ones.",
        ),
    ] = DEFAULT_LISTEN,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper",
            metavar="HOST:PORT",
            help="Where ZooKeeper listens.",
            show_default=f"port {ZOOKEEPER_PORT} of the same host, or a free one if --listen has port 0",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A setting of every broker, under Kafka's name; may be given again."
        ),
    ] = None,
) -> None:
    """Run a cluster on this machine until SIGTERM or Ctrl-C: ZooKeeper and brokers, each a process of its own.

    Topics have as many replicas as there are brokers, up to three. A line says when each member is ready, and the last line has
    the address of the cluster. Both signals are a clean stop. The next start with the same directory goes on with the same data.
    """
    _check_needs()
    host, _, port = listen.rpartition(":")
    if zookeeper is None:
        zookeeper = f"{host}:{ZOOKEEPER_PORT if port != '0' else 0}"
    try:
        plan = ClusterPlan(data_dir, brokers, listen, zookeeper, named_values(settings or [], "--set"), {})
    except ValueError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from error
    Foreground(plan).run()


def _check_needs() -> None:
    check_installed("cluster start")
    check_kazoo("cluster start")
    needed_java()


class Foreground:
    """A cluster on a terminal: each event of a member is a line."""

    def __init__(self, plan: ClusterPlan) -> None:
        # Signal handlers put into it too, which only this kind of queue allows.
        self._events: SimpleQueue[Event | StopRequested] = SimpleQueue()
        self._cluster = LocalCluster(plan, self._events.put)
        self._ready: set[MemberProcess] = set()
        self._ended: set[MemberProcess] = set()
        self._held: defaultdict[MemberProcess, list[str]] = defaultdict(list)
        self._is_announced = False
        self._signals = 0

    def run(self) -> None:
        """Raises CommandError if a member does not start, or if none is left."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._request_stop())
        try:
            self._cluster.launch()
            while not isinstance(event := self._next(), StopRequested):
                self._show(event)
            self._cluster.stop()
        except MemberError as error:
            raise CommandError(str(error), ExitStatus.FAILED) from error
        finally:
            self._cluster.kill()

    def _request_stop(self) -> None:
        """The first signal asks for a clean stop, the second one kills."""
        self._signals += 1
        self._events.put(StopRequested())
        if self._signals > 1:
            self._cluster.give_up()

    def _next(self) -> Event | StopRequested:
        """The next event. While it waits, it prints the last line as soon as the cluster is joined."""
        while not self._is_announced and len(self._ready) == len(self._cluster.members):
            try:
                return self._events.get(timeout=LOOK_SECONDS)
            except Empty:
                self._announce()
        return self._events.get()

    def _announce(self) -> None:
        if self._cluster.is_joined():
            self._is_announced = True
            print(f"the cluster is ready: --bootstrap-server {self._cluster.bootstrap_servers}", flush=True)

    def _show(self, event: Event) -> None:
        member = event.member
        if isinstance(event, Ready):
            self._ready.add(member)
            print(self._readiness(event), flush=True)
            for line in self._held.pop(member, []):
                note(f"{member.name}: {line}")
        elif isinstance(event, Complained):
            if member in self._ready:
                note(f"{member.name}: {event.line}")
            else:
                self._held[member].append(event.line)
        else:
            self._bury(event)

    def _bury(self, event: Ended) -> None:
        member = event.member
        if member not in self._ready:
            *before, last = self._held.pop(member, []) or [event.how]
            for line in before:
                note(f"{member.name}: {line}")
            raise CommandError(f"{member.name} did not start: {last}", ExitStatus.FAILED)
        self._ended.add(member)
        if len(self._ended) == len(self._cluster.members):
            raise CommandError(f"{member.name} is gone, the last one: {event.how}", ExitStatus.FAILED)
        note(f"{member.name} is gone, and the others go on: {event.how}")

    def _readiness(self, event: Ready) -> str:
        member, cluster = event.member, self._cluster
        if member is cluster.zookeeper:
            where = f"{cluster.zookeeper_connect}, data in {cluster.zookeeper_directory}"
        else:
            where = next(one.whereabouts for one in cluster.brokers.values() if one.process is member)
        return f"{member.name} (pid {member.pid}) is ready on {where}"
