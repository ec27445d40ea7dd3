"""A broker's program with a watch on its event loop: `watched_program.py REPORT oncelog-arguments...`

The watch is put around the loop from outside, the product knows nothing of it. The loop is asyncio's own: uvloop's
callbacks cannot be reached from Python, and they are the same callbacks. What one callback costs is the processor time of
the loop's thread, collections of garbage included. Others who use the same caches and cores make that longer: after each
callback that took long, a piece of work that is always the same shows by how much, compared with its best time, and the
callback counts for so much less.
"""

from __future__ import annotations

import asyncio
import asyncio.events
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from oncelog.broker.dispatch import Dispatch
from oncelog.cli.main import main
from oncelog.server import main as server
from oncelog.server import warm_up
from oncelog.wire import api_name, read_request_header

WORTH_TELLING_MS = 5.0
PROBES = 300


def probe_ns() -> int:
    """How long it takes to make, hash, sort and read some objects, as a broker does all day."""
    began_ns = time.thread_time_ns()
    found = {(str(number), number): bytes(20) for number in range(300)}
    _ = sorted(found, key=lambda key: -key[1]), b"".join(found.values())
    return time.thread_time_ns() - began_ns


class Watch:
    """Writes a line for every callback that takes long, and for every file that is made durable on the loop's thread."""

    def __init__(self, report: str) -> None:
        self._report = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._requests: list[str] = []
        self._collected_ns = 0
        self._collection_began_ns = 0
        self._loop_thread = threading.get_ident()
        self._best_ns = min(probe_ns() for _ in range(PROBES))

    def begin(self) -> None:
        run = asyncio.events.Handle._run
        receive = Dispatch.receive

        def watched_run(handle: asyncio.Handle) -> None:
            self._requests.clear()
            self._collected_ns = 0
            began_ns = time.thread_time_ns()
            run(handle)
            took_ms = (time.thread_time_ns() - began_ns) / 1e6
            if took_ms >= WORTH_TELLING_MS:
                share = self._speed()
                collecting_ms = self._collected_ns / 1e6 * share
                self._say(cpu_ms=took_ms * share, collecting_ms=collecting_ms, name=self._name(handle))

        def watched_receive(dispatch: Dispatch, connection: Any, frame: memoryview) -> Any:
            header = read_request_header(frame)
            self._requests.append(f"{api_name(header.api_key)} v{header.version}")
            return receive(dispatch, connection, frame)

        asyncio.events.Handle._run = watched_run  # type: ignore[method-assign]
        Dispatch.receive = watched_receive  # type: ignore[method-assign]
        server.new_event_loop = asyncio.new_event_loop
        # The loads come at once, and are to meet a broker that has been there for a while.
        warm_up.BEGIN_S = 0.0
        gc.callbacks.append(self._collecting)
        for name in ("fsync", "fdatasync"):
            setattr(os, name, partial(self._sync, name, getattr(os, name)))

    def _speed(self) -> float:
        """How fast the machine is now, beside its best."""
        now_ns = min(probe_ns() for _ in range(3))
        self._best_ns = min(self._best_ns, now_ns)
        return self._best_ns / now_ns

    def _name(self, handle: Any) -> str:
        called = [handle._callback, *(handle._args or ())]
        names = [name for one in called if (name := getattr(one, "__qualname__", None)) is not None]
        return " < ".join([*self._requests[:3], *reversed(names)])

    def _collecting(self, phase: str, _: dict[str, int]) -> None:
        if threading.get_ident() != self._loop_thread:
            return
        if phase == "start":
            self._collection_began_ns = time.thread_time_ns()
        else:
            self._collected_ns += time.thread_time_ns() - self._collection_began_ns

    def _sync(self, name: str, sync: Callable[[int], None], descriptor: int) -> None:
        if threading.get_ident() == self._loop_thread:
            self._say(synced=os.readlink(f"/proc/self/fd/{descriptor}"), name=name)
        sync(descriptor)

    def _say(self, **what: Any) -> None:
        os.write(self._report, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    _, report, *arguments = sys.argv
    Watch(report).begin()
    sys.argv = ["oncelog", *arguments]
    main()
