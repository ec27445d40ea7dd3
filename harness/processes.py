"""A broker in a process of its own, that a test may kill and start again on the same data and the same address."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from random import SystemRandom

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

PORTS = range(15_000, 32_000)
"""Not those that systems give to whoever connects, or does not care: a broker that is away may find its port taken."""
_given: set[int] = set()


def free_port() -> int:
    """Nobody has it, and nobody else is told of it by this process."""
    while True:
        port = SystemRandom().choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _given:
            _given.add(port)
            return port


class BrokerProcess(ABC):
    """One broker process: `start`, `stop` (SIGTERM), `kill` (SIGKILL), and `start` again."""

    name = "broker"
    ready_timeout_seconds = 60.0

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.output = directory / "output.txt"
        self._process: subprocess.Popen[bytes] | None = None
        self._said_before_bytes = 0

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker was never started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @abstractmethod
    def command(self) -> list[str]:
        """What starts it."""

    def start(self) -> None:
        """Start the process and wait until it answers for itself."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start the process and wait for nothing."""
        assert not self.is_running, "the broker runs already"
        with open(self.output, "ab") as output:
            self._said_before_bytes = output.tell()
            self._process = subprocess.Popen(self.command(), stdout=output, stderr=output, stdin=subprocess.DEVNULL)

    def stop(self, timeout_seconds: float = 30.0) -> None:
        """A clean stop."""
        if self.is_running and self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout_seconds)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"{self.name} did not stop in {timeout_seconds} s: {self.tail()}") from None

    def kill(self) -> None:
        """An unclean one, as a power cut of the process."""
        if self.is_running and self._process is not None:
            self._process.kill()
            self._process.wait()

    def suspend(self) -> None:
        """It does nothing and closes nothing until `resume`: to the others it looks like a long pause."""
        self.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.send_signal(signal.SIGCONT)

    def send_signal(self, number: int) -> None:
        assert self._process is not None, "the broker was never started"
        self._process.send_signal(number)

    def wait(self, timeout_seconds: float = 30.0) -> int:
        """Wait until the process ends by itself; return its exit status."""
        assert self._process is not None, "the broker was never started"
        return self._process.wait(timeout_seconds)

    def said(self) -> str:
        """What this process has said, and none before it."""
        return self.output.read_bytes()[self._said_before_bytes :].decode(errors="replace")

    def tail(self, size: int = 2000) -> str:
        return self.output.read_text(errors="replace")[-size:] if self.output.exists() else ""

    def wait_until_ready(self) -> None:
        """After `launch`: wait until it answers for itself."""
        deadline = time.monotonic() + self.ready_timeout_seconds
        while time.monotonic() < deadline:
            if not self.is_running:
                raise AssertionError(f"{self.name} ended while it started: {self.tail()}")
            if self._accepts_connections() and self._answers() and self._has_said_so():
                return
            time.sleep(0.02)
        self.kill()
        raise AssertionError(f"{self.name} was not ready in {self.ready_timeout_seconds} s: {self.tail()}")

    def _accepts_connections(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _has_said_so(self) -> bool:
        """A broker may answer before it says that it is ready."""
        return True

    def _answers(self) -> bool:
        """A broker that registered itself is in its own metadata."""
        try:
            metadata = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0}).list_topics(timeout=5)
        except KafkaException:
            return False
        return len(metadata.brokers) == 1
