"""A real broker for a test that is not asyncio: it runs on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from oncelog.server.main import new_event_loop
from oncelog.server.node import Broker


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """What a client needs to know of a broker that runs."""

    bootstrap_servers: str


@contextmanager
def broker(
    data_dir: str | None = None, *, listen: str | None = None, **settings: str | int | bool
) -> Iterator[RunningBroker]:
    """Run a broker on a thread for the length of a `with` block.

    Without `listen` and the setting listeners it takes a free port. Without `data_dir` the log is gone afterwards. Settings are
    Kafka's, with underscores for dots: `broker(num_partitions=4, log_dirs="/a,/b")`. Raises what `oncelog.Broker` raises.
    """
    thread = _BrokerThread(Broker(data_dir=data_dir, listen=listen, settings=None, **settings))
    running = thread.begin()
    try:
        yield running
    finally:
        thread.end()


class _BrokerThread:
    """One event loop on one thread; `begin` waits until the broker answers, `end` until it is closed."""

    def __init__(self, served: Broker) -> None:
        self._broker = served
        self._loop = new_event_loop()
        self._started = threading.Event()
        self._start_error: BaseException | None = None
        self._stop_error: BaseException | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="oncelog-broker", daemon=True)

    def begin(self) -> RunningBroker:
        self._thread.start()
        self._started.wait()
        if self._start_error is not None:
            self._thread.join()
            raise self._start_error
        return RunningBroker(self._broker.bootstrap_servers)

    def end(self) -> None:
        """Raises what stopped the broker before its time."""
        assert self._stop is not None, "the broker was not begun"
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._stop_error is not None:
            raise self._stop_error

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:  # noqa: BLE001 - it is raised again on the caller's thread
            self._stop_error = error
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        try:
            await self._broker.start()
        except BaseException as error:  # noqa: BLE001 - it is raised again on the caller's thread
            self._start_error = error
            self._started.set()
            return
        self._started.set()
        failure = asyncio.ensure_future(self._broker.failure())
        stop = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait((failure, stop), return_when=asyncio.FIRST_COMPLETED)
        if failure.done():
            stop.cancel()
            await self._broker.stop()
            raise failure.result()
        failure.cancel()
        await self._broker.stop()
