"""The page of metrics over real connections: for whoever asks rightly, and for others."""

from __future__ import annotations

import asyncio
import socket
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from functools import wraps

import pytest

from oncelog.cluster.metrics import CONTENT_TYPE
from oncelog.server.metrics import CONNECTIONS_MAX, REQUEST_BYTES_MAX, MetricsListener

PAGE = "a_metric 1\n" * 100_000
HOST = "127.0.0.1"


def on_a_loop(test: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*given: object, **named: object) -> None:
        asyncio.run(test(*given, **named))

    return run


class Page:
    def __init__(self) -> None:
        self.bugs: list[BaseException] = []
        self.port = 0
        self.text = PAGE
        self.listener: MetricsListener | None = None

    def exposition(self) -> Iterator[str]:
        if not self.text:
            raise AssertionError("a bug")
        yield from self.text.splitlines(keepends=True)

    async def ask(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(HOST, self.port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        return answer


@asynccontextmanager
async def listening() -> AsyncIterator[Page]:
    page = Page()
    bound = socket.create_server((HOST, 0))
    page.port = bound.getsockname()[1]
    page.listener = MetricsListener(bound, page.exposition, page.bugs.append)
    await page.listener.start()
    try:
        yield page
    finally:
        page.listener.close()


@on_a_loop
async def test_metrics_are_read_with_get() -> None:
    async with listening() as page:
        answer = await page.ask(b"GET /metrics?name=a HTTP/1.1\r\nHost: here\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.splitlines()[0] == b"HTTP/1.1 200 OK"
    assert f"Content-Type: {CONTENT_TYPE}".encode() in head
    assert f"Content-Length: {len(PAGE)}".encode() in head
    assert body.decode() == PAGE


@on_a_loop
async def test_a_client_of_pythons_library_reads_them() -> None:
    def read(port: int) -> str:
        with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=20) as answer:
            return str(answer.read().decode())

    async with listening() as page:
        assert await asyncio.to_thread(read, page.port) == PAGE


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"HEAD /metrics HTTP/1.1", b"200 OK"),
        (b"POST /metrics HTTP/1.1", b"405 Method Not Allowed"),
        (b"GET / HTTP/1.1", b"404 Not Found"),
        (b"\x00\x00\x00\x10", b"404 Not Found"),
    ],
)
@on_a_loop
async def test_other_requests_get_no_metrics(request_line: bytes, status: bytes) -> None:
    async with listening() as page:
        answer = await page.ask(request_line + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"a_metric" not in answer


@pytest.mark.parametrize("request_bytes", [b"", b"GET /met", b"x" * (REQUEST_BYTES_MAX * 4)])
@on_a_loop
async def test_what_is_no_whole_request_gets_no_answer(request_bytes: bytes) -> None:
    async with listening() as page:
        reader, writer = await asyncio.open_connection(HOST, page.port)
        writer.write(request_bytes)
        writer.write_eof()
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        assert not page.bugs


@on_a_loop
async def test_connections_that_say_nothing_do_not_add_up() -> None:
    async with listening() as page:
        silent = [await asyncio.open_connection(HOST, page.port) for _ in range(CONNECTIONS_MAX + 5)]

        async def is_over(reader: asyncio.StreamReader) -> bool:
            try:
                return await reader.read() == b""
            except ConnectionResetError:
                return True

        refused = [asyncio.create_task(is_over(reader)) for reader, _ in silent[CONNECTIONS_MAX:]]
        assert all(await asyncio.gather(*refused))
        for _, writer in silent:
            writer.transport.abort()


@on_a_loop
async def test_a_bug_is_told_and_the_connection_ends() -> None:
    async with listening() as page:
        page.text = ""
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        assert await page.ask(b"GET /metrics HTTP/1.1\r\n\r\n") == b""
        assert [str(error) for error in page.bugs] == ["a bug"]


@on_a_loop
async def test_others_have_their_turn_while_a_long_page_is_made() -> None:
    async with listening() as page:
        turns = 0
        asking = asyncio.ensure_future(page.ask(b"GET /metrics HTTP/1.1\r\n\r\n"))
        made = False

        def slow() -> Iterator[str]:
            nonlocal made
            for _ in range(20):
                time.sleep(0.003)
                yield "a_metric 1\n"
            made = True

        assert page.listener is not None
        page.listener._exposition = slow
        while not made:
            await asyncio.sleep(0)
            turns += 1
        assert (await asking).count(b"a_metric") == 20
        assert turns > 15


@on_a_loop
async def test_nobody_is_answered_after_the_end() -> None:
    async with listening() as page:
        assert page.listener is not None
        page.listener.close()
        with pytest.raises(ConnectionRefusedError):
            await page.ask(b"GET /metrics HTTP/1.1\r\n\r\n")
