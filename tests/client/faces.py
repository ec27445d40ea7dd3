"""Both faces of the client under one set of names: what is asyncio's runs on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from oncelog import client

TIMEOUT_SECONDS = 60


class OnLoop:
    """An object of the asyncio face whose every method blocks."""

    def __init__(self, loop: asyncio.AbstractEventLoop, make: Callable[[], Any]) -> None:
        self._loop = loop
        self._inner = self._run(make)

    def __getattr__(self, name: str) -> Any:
        if not inspect.isroutine(inspect.getattr_static(self._inner, name)):
            return getattr(self._inner, name)
        return lambda *args, **named: self._call(name, *args, **named)

    def __enter__(self) -> OnLoop:
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._inner.close)

    def _call(self, name: str, *args: Any, **named: Any) -> Any:
        result = self._run(lambda: getattr(self._inner, name)(*args, **named))
        return OnLoop(self._loop, lambda: result) if isinstance(result, client.AsyncDelivery) else result

    def _run(self, function: Callable[[], Any]) -> Any:
        async def call() -> Any:
            result = function()
            if isinstance(result, client.AsyncDelivery):
                return result
            return await result if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(TIMEOUT_SECONDS)


class Face:
    """Makes clients, consumers and producers of one face."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop | None) -> None:
        self.name = name
        self._loop = loop

    def consumer(self, bootstrap_servers: str, **options: Any) -> Any:
        return self._make("Consumer", bootstrap_servers, options)

    def client(self, bootstrap_servers: str, **options: Any) -> Any:
        return self._make("Client", bootstrap_servers, options)

    def producer(self, bootstrap_servers: str, **options: Any) -> Any:
        return self._make("Producer", bootstrap_servers, options)

    def _make(self, name: str, bootstrap_servers: str, options: dict[str, Any]) -> Any:
        if self._loop is None:
            return getattr(client, name)(bootstrap_servers, **options)
        return OnLoop(self._loop, lambda: getattr(client, f"Async{name}")(bootstrap_servers, **options))


@contextmanager
def faces(name: str) -> Iterator[Face]:
    if name == "blocking":
        yield Face(name, None)
        return
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield Face(name, loop)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
