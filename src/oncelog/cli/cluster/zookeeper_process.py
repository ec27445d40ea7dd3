"""ZooKeeper's Java process: it lives no longer than the command that started it."""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.server.disk import RealLock

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
OPTIONS = (
    "-Xmx1000m",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dzookeeper.jmx.log4j.disable=true",
)
"""The heap is that of ZooKeeper's own script."""
OPTIONS_VARIABLE = "SERVER_JVMFLAGS"
LOGGING_FILE = "log4j2.properties"
# QuorumPeerMain and ServerCnxnFactory warn of defaults that are meant, NIOServerCnxn of every client that goes without a word.
# While a server starts it cannot close a connection properly: ServerCnxn and WorkerService say so, and neither says anything
# else of these levels but of the end of one connection.
LOGGING = """\
status = error
appender.errors.type = Console
appender.errors.name = errors
appender.errors.target = SYSTEM_ERR
appender.errors.layout.type = PatternLayout
appender.errors.layout.pattern = %d %p %c{1}: %m%n%rEx{1}
logger.main.name = org.apache.zookeeper.server.quorum.QuorumPeerMain
logger.main.level = error
logger.listener.name = org.apache.zookeeper.server.ServerCnxnFactory
logger.listener.level = error
logger.connections.name = org.apache.zookeeper.server.NIOServerCnxn
logger.connections.level = error
logger.connection.name = org.apache.zookeeper.server.ServerCnxn
logger.connection.level = off
logger.workers.name = org.apache.zookeeper.server.WorkerService
logger.workers.level = error
rootLogger.level = warn
rootLogger.appenderRef.errors.ref = errors
"""
PROBE_SECONDS_MIN, PROBE_SECONDS_MAX, PROBE_TIMEOUT_SECONDS = 0.02, 1.0, 1.0
STOP_SECONDS = 20.0
SIGNAL_OF_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG of prctl(2)


def java_command(java: Path, classpath: str, configuration: Path, environment: Mapping[str, str]) -> list[str]:
    """The command that starts a server. Writes its logging configuration, which prints errors alone, beside the other one."""
    logging = configuration.with_name(LOGGING_FILE)
    logging.write_text(LOGGING)
    options = [
        *OPTIONS,
        f"-Dlog4j2.configurationFile={logging.as_uri()}",
        *shlex.split(environment.get(OPTIONS_VARIABLE, "")),
    ]
    return [str(java), *options, "-cp", classpath, MAIN, str(configuration)]


class ZooKeeperProcess:
    """One server, from its start to its end. It holds the lock of its directory too."""

    def __init__(self, command: Sequence[str], address: tuple[str, int], lock: RealLock) -> None:
        self._command = command
        self._address = address
        self._lock = lock
        self._process: subprocess.Popen[bytes] | None = None
        self._is_told_to_stop = False

    def run(self, ready: str) -> None:
        """Run it until SIGTERM or SIGINT, and print the line `ready` once it serves.

        Raises CommandError if it ends by itself.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop())
        process = self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            stderr=sys.stderr.fileno(),
            start_new_session=True,
            pass_fds=(self._lock.fileno(),),
            preexec_fn=_dying_with_its_parent(),
        )
        try:
            if self._is_told_to_stop:
                self._stop()
            if self._comes_to_serve(process):
                print(ready, flush=True)
            status = process.wait()
        finally:
            process.kill()
        if not self._is_told_to_stop:
            raise CommandError(_how_it_ended(status), ExitStatus.FAILED)

    def _comes_to_serve(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait until it serves; False if it ends instead. A member of an ensemble serves once a majority runs."""
        pause_seconds = PROBE_SECONDS_MIN
        while process.poll() is None:
            if self._serves():
                return True
            time.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 1.2, PROBE_SECONDS_MAX)
        return False

    def _stop(self) -> None:
        self._is_told_to_stop = True
        if self._process is not None:
            self._process.terminate()
            impatient = threading.Timer(STOP_SECONDS, self._process.kill)
            impatient.daemon = True
            impatient.start()

    def _serves(self) -> bool:
        """A member of an ensemble has no mode as long as no majority of them runs."""
        try:
            with socket.create_connection(self._address, PROBE_TIMEOUT_SECONDS) as connection:
                connection.sendall(b"srvr")
                with connection.makefile("rb") as answer:
                    return b"\nMode: " in answer.read()
        except OSError:
            return False


def _how_it_ended(status: int) -> str:
    if status < 0:
        return f"signal {-status} killed ZooKeeper's Java"
    return f"ZooKeeper ended by itself with status {status}; what it logged says why"


def _dying_with_its_parent() -> Callable[[], None] | None:
    """Have the kernel kill Java with this process: a function for the child to run before it becomes Java. None except on Linux."""
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def bind_to_parent() -> None:
        prctl(SIGNAL_OF_PARENTS_DEATH, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(ExitStatus.FAILED)

    return bind_to_parent
