"""Links to other brokers by TLS and SASL: open when both sides know each other, and ended once, with a reason, when not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from harness.heard_link import PATIENCE_S, HeardLink
from harness.secured_listeners import WRONG, SecuredListeners
from oncelog.environment import Link
from oncelog.security.values import Security
from oncelog.server.link_security import LinkSecurity
from oncelog.server.network import SocketNetwork
from oncelog.testing import broker
from oncelog.wire import encode_request
from oncelog.wire.offered_versions import versions_question

API_VERSIONS = 18


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredListeners]:
    found = SecuredListeners(tmp_path_factory.mktemp("keys"))
    with broker(**found.settings):
        yield found


def connect(security: Security, port: int, host: str = "127.0.0.1", timeout_ms: int = 10_000) -> tuple[Link, HeardLink]:
    heard = HeardLink()
    network = SocketNetwork(asyncio.get_running_loop(), lambda callback: callback(), LinkSecurity(security))
    return network.connect(host, port, heard, timeout_ms=timeout_ms), heard


async def ending(security: Security, port: int, **more: Any) -> str:
    """Why a link that nobody should have is not to be had."""
    link, heard = connect(security, port, **more)
    link.send(question())
    await heard.until(lambda: heard.ends)
    await asyncio.sleep(0.05)
    assert heard.frames == []
    (reason,) = heard.ends
    return reason


def question() -> list[Any]:
    return encode_request(API_VERSIONS, 0, 7, "tests", versions_question(0))


@pytest.mark.parametrize("name", ["SSL", "SASL_PLAINTEXT", "SASL_SSL", "MUTUAL"])
def test_what_is_sent_before_the_link_is_open_is_answered_behind_the_log_in(run, served, name: str) -> None:
    async def test() -> None:
        link, heard = connect(served.options(name), served.ports[name])
        link.send(question())
        await heard.until(lambda: heard.frames)
        assert heard.frames[0][:4] == (7).to_bytes(4, "big")
        link.close()

    run(test())


@pytest.mark.parametrize("name", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_wrong_password_ends_the_link_without_being_told(run, served, name: str) -> None:
    async def test() -> None:
        reason = await ending(served.options(name, sasl_password=WRONG), served.ports[name])
        assert "does not accept user 'alice' by PLAIN: Authentication failed: Invalid username or password" in reason
        assert WRONG not in reason

    run(test())


def test_wrong_password_is_said_once_however_often_it_is_tried(run, served, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        network = SocketNetwork(
            asyncio.get_running_loop(),
            lambda callback: callback(),
            LinkSecurity(served.options("SASL_SSL", sasl_password=WRONG)),
        )
        for _ in range(3):
            heard = HeardLink()
            network.connect("127.0.0.1", served.ports["SASL_SSL"], heard, timeout_ms=10_000)
            await heard.until(lambda heard=heard: heard.ends)

    run(test())
    (said,) = [one.getMessage() for one in caplog.records if one.name == "oncelog.links" and one.levelname == "WARNING"]
    assert "does not accept user 'alice' by PLAIN" in said


def test_broker_by_an_authority_that_is_not_trusted_is_told_nothing(run, served) -> None:
    async def test() -> None:
        security = served.options("SASL_SSL", ssl_ca_location=str(served.stranger.file))
        assert "is by an authority that is not trusted here" in await ending(security, served.ports["SASL_SSL"])

    run(test())


def test_broker_with_the_certificate_of_another_host_is_told_nothing(run, served) -> None:
    async def test() -> None:
        security = served.options("SASL_SSL")
        reason = await ending(security, served.ports["SASL_SSL"], host="localhost")
        assert "is for another host" in reason

    run(test())


def test_own_certificate_by_an_authority_that_the_other_does_not_trust(run, served) -> None:
    async def test() -> None:
        strange = str(served.stranger.issue("mallory").both_file)
        reason = await ending(served.options("MUTUAL", ssl_keystore_location=strange), served.ports["MUTUAL"])
        assert reason

    run(test())


def test_listener_without_tls_is_no_place_to_log_in(run, served) -> None:
    async def test() -> None:
        reason = await ending(served.options("SASL_SSL"), served.ports["SASL_PLAINTEXT"])
        assert "TLS" in reason

    run(test())


def test_listener_without_sasl_is_no_place_to_log_in(run, served) -> None:
    async def test() -> None:
        reason = await ending(served.options("SASL_PLAINTEXT"), served.ports["PLAINTEXT"])
        assert "takes no SASL" in reason

    run(test())


def test_plain_text_at_a_listener_with_tls(run, served) -> None:
    async def test() -> None:
        heard = HeardLink()
        network = SocketNetwork(asyncio.get_running_loop(), lambda callback: callback())
        link = network.connect("127.0.0.1", served.ports["SSL"], heard, timeout_ms=5000)
        link.send(question())
        await heard.until(lambda: heard.ends)
        assert heard.frames == []

    run(test())


@asynccontextmanager
async def peer(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> AsyncIterator[int]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.mark.parametrize("name", ["SSL", "SASL_PLAINTEXT"])
def test_broker_that_says_nothing_is_given_up(run, served, name: str) -> None:
    async def test() -> None:
        silence = asyncio.Event()

        async def say_nothing(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
            await silence.wait()

        async with peer(say_nothing) as port:
            reason = await ending(served.options(name), port, timeout_ms=200)
            assert "did not answer in 200 ms" in reason
            silence.set()

    run(test())


def test_broker_that_hangs_up_during_the_log_in(run, served) -> None:
    async def test() -> None:
        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.close()

        async with peer(hang_up) as port:
            assert "closed the connection during the log-in" in await ending(served.options("SASL_PLAINTEXT"), port)

    run(test())


def test_broker_that_answers_with_something_else(run, served) -> None:
    async def test() -> None:
        async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.write(b"\x00\x00\x00\x08babbling")

        async with peer(babble) as port:
            assert await ending(served.options("SASL_PLAINTEXT"), port)

    run(test())


def test_link_that_is_closed_during_the_log_in_calls_nobody(run, served) -> None:
    async def test() -> None:
        has_begun, is_over = asyncio.Event(), asyncio.Event()

        async def listen(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            await reader.read(10)
            has_begun.set()
            await reader.read()
            is_over.set()

        async with peer(listen) as port, asyncio.timeout(PATIENCE_S):
            link, heard = connect(served.options("SASL_PLAINTEXT"), port)
            await has_begun.wait()
            link.close()
            with suppress(ConnectionError):
                await is_over.wait()
        assert (heard.is_open, heard.ends, heard.frames) == (False, [], [])

    run(test())
