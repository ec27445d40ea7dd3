"""The demo's broker where it is alone."""

from __future__ import annotations

import threading
from pathlib import Path

from oncelog.cli.broker_process import BrokerProcess, ProcessError
from oncelog.cli.demo import kills
from oncelog.cli.demo.brokers import ClusterState
from oncelog.cli.demo.kills import Kill
from oncelog.cli.demo.plan import Guarantee
from oncelog.cli.demo.processes import free_port


class SingleBroker:
    """A broker that is started again at once when it has been killed."""

    replication_factor = 1
    micro_batches = 6

    def __init__(self, directory: Path) -> None:
        self._process = BrokerProcess(f"127.0.0.1:{free_port()}", directory / "data", directory / "broker.txt")
        self._restart: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def bootstrap_servers(self) -> str:
        return self._process.bootstrap_servers

    @property
    def complaint(self) -> str | None:
        last_words = self._process.complaint
        return None if last_words is None else f"the broker stopped by itself: {last_words}"

    def start(self) -> None:
        self._process.start()

    def kills(self, guarantee: Guarantee) -> tuple[Kill, ...]:
        return kills.kills(guarantee)

    def kill(self, kill: Kill, topic: str) -> str:
        with self._lock:
            if self._is_closed:
                raise ProcessError("the demo is over")
            self._process.kill()
            self._restart = threading.Thread(target=self._process.start, name="broker's restart", daemon=True)
            self._restart.start()
        return kill.victim.value

    def wait_until_whole(self) -> None:
        if self._restart is not None:
            self._restart.join()

    def state(self) -> ClusterState | None:
        return None

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self.wait_until_whole()
        self._process.stop()
