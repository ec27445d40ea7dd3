"""A real broker for a test that is not asyncio: it runs on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from oncelog.server.main import new_event_loop
from oncelog.server.node import Broker


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """The address of a running broker."""

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
    try:
        yield thread.begin()
    finally:
        thread.end()


class _BrokerThread:
    """One event loop on one thread; `begin` waits until the broker answers, `end` until it is closed.

    What interrupts one of the two, Ctrl-C or the end of a test's time, must not leave a broker behind.
    """

    def __init__(self, served: Broker) -> None:
        self._broker = served
        self._loop = new_event_loop()
        self._started = threading.Event()
        # A join that is interrupted takes a thread for one that has ended (Python 3.12 and before).
        self._ended = threading.Event()
        self._start_error: BaseException | None = None
        self._stop_error: BaseException | None = None
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="oncelog-broker", daemon=True)

    def begin(self) -> RunningBroker:
        """Raises what kept the broker from starting."""
        self._thread.start()
        self._started.wait()
        if self._start_error is not None:
            raise self._start_error
        return RunningBroker(self._broker.bootstrap_servers)

    def end(self) -> None:
        """Raises what stopped the broker before its time."""
        with suppress(RuntimeError):  # The loop is closed: it has ended by itself.
            self._loop.call_soon_threadsafe(self._stop.set)
        # In a forked process the thread is not alive.
        if self._thread.is_alive():
            self._wait_for_the_end()
        if self._stop_error is not None:
            raise self._stop_error

    def _wait_for_the_end(self) -> None:
        try:
            self._ended.wait()
        except BaseException:
            # The thread would end with the process, in the middle of what it does. A second Ctrl-C does not wait for that.
            self._ended.wait()
            raise
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:  # noqa: BLE001 - it is raised again on the caller's thread
            self._stop_error = error
        finally:
            self._loop.close()
            self._ended.set()

    async def _serve(self) -> None:
        stop = asyncio.ensure_future(self._stop.wait())
        starting = asyncio.ensure_future(self._broker.start())
        await asyncio.wait((starting, stop), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            # Nobody waits for it any more.
            starting.cancel()
            await asyncio.wait((starting,))
            return
        self._start_error = starting.exception()
        self._started.set()
        if self._start_error is not None:
            stop.cancel()
            return
        failure = asyncio.ensure_future(self._broker.failure())
        await asyncio.wait((failure, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        failure.cancel()
        await self._broker.stop()
        if self._broker.error is not None:
            raise self._broker.error
