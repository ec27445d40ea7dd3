"""What only a real client has to do: find servers, make the chroot, leave servers that are none."""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest
import uvloop
from kazoo.client import KazooClient

from oncelog.cluster.zookeeper.session import (
    Check,
    Children,
    Create,
    Created,
    Data,
    Done,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Result,
    Results,
    SetData,
    ZooKeeperError,
    ZooKeeperSessionState,
)
from oncelog.coordination import Promise
from oncelog.server.zookeeper import Ensemble, RealZooKeeper, ZooKeeperUnreachableError, parse_ensemble
from oncelog.server.zookeeper.connection import ServerConnection

TIMEOUT_MS = 3000
LONG_TIMEOUT_MS = 10_000
"""For a session that is to outlive servers, which a busy machine is slow to kill and to start: 20 ticks, the most they give."""
PATIENCE_MS = 30_000
PASSWORD = bytes(range(16))
WELCOME = struct.pack("!iiiqi16s?", 37, 0, TIMEOUT_MS, 1, len(PASSWORD), PASSWORD, False)
"""What a server says when it gives a session: protocol, timeout, the session's id and password, whether it only reads."""


def client_of(
    connect: str, connection_timeout_ms: int = PATIENCE_MS, session_timeout_ms: int = TIMEOUT_MS
) -> RealZooKeeper:
    ensemble = parse_ensemble(connect)
    return RealZooKeeper(ensemble, session_timeout_ms, connection_timeout_ms, lambda callback: callback())


async def of(promise: Promise[Result]) -> Result:
    found = asyncio.get_running_loop().create_future()
    promise.then(lambda result: found.done() or found.set_result(result))
    return await asyncio.wait_for(found, PATIENCE_MS / 1000)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while not is_so():  # noqa: ASYNC110 - what it waits for is a state, and nobody sets an event
            await asyncio.sleep(0.01)


async def end(*clients: RealZooKeeper) -> None:
    for client in clients:
        client.close()
    await asyncio.gather(*(client.wait_closed() for client in clients))


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[None]], None]:
    """Both event loops that a broker may run on."""
    return request.param


@pytest.mark.jvm
def test_chroot_is_made_and_all_paths_are_below_it(run, zookeeper):
    async def go() -> None:
        above, below = client_of(zookeeper), client_of(f"{zookeeper}/deep/kafka")
        await below.connected()
        assert isinstance(await of(below.submit(Create("/a", b"1"))), Created)
        heard = []
        below.on_watched = heard.append
        await of(below.submit(GetData("/a", watch=True)))
        await of(below.submit(GetChildren("/", watch=True)))
        assert isinstance(await of(above.submit(SetData("/deep/kafka/a", b"2"))), Done)
        assert isinstance(await of(above.submit(Create("/deep/kafka/b"))), Created)
        found = await of(below.submit(GetData("/a")))
        assert isinstance(found, Data)
        assert found.data == b"2"
        assert sorted(watched.path for watched in heard) == ["/", "/a"]
        await end(above, below)

    run(go())


@pytest.mark.drawn(6)
@pytest.mark.jvm
def test_another_server_of_the_ensemble_takes_over_the_session(run, new_zookeeper):
    ensemble = new_zookeeper(3)

    async def go() -> None:
        client = client_of(ensemble.connect, session_timeout_ms=LONG_TIMEOUT_MS)
        states = []
        client.on_session = states.append
        await client.connected()
        session_id = client.session_id
        await of(client.submit(Create("/mine", is_ephemeral=True)))
        for server in ensemble.servers:
            connected = len(states)
            server.kill()
            found = await of(client.submit(Exists("/mine")))
            while found is ZooKeeperError.CONNECTION_LOSS:
                found = await of(client.submit(Exists("/mine")))
            assert isinstance(found, Done)
            # Who answered that may have lost its leader, and have let the client go a moment later.
            await until(lambda: states[-1] is ZooKeeperSessionState.CONNECTED)
            assert states[connected:] in ([], [ZooKeeperSessionState.DISCONNECTED, ZooKeeperSessionState.CONNECTED])
            await asyncio.to_thread(ensemble.start)
            await until(lambda: states[-1] is ZooKeeperSessionState.CONNECTED)
        assert client.session_id == session_id
        assert ZooKeeperSessionState.DISCONNECTED in states, "each server was killed once"
        await end(client)

    run(go())


@pytest.mark.jvm
def test_session_is_over_at_once_when_the_client_is_closed_with_much_under_way(run, zookeeper):
    async def go() -> None:
        client, other = client_of(zookeeper), client_of(zookeeper)
        await client.connected()
        await of(client.submit(Create("/mine", is_ephemeral=True)))
        for _ in range(2000):
            client.submit(GetData("/mine"))
        client.close()
        await client.wait_closed()
        # The server's answer to the end of the session comes when its nodes are gone.
        assert await of(other.submit(Exists("/mine"))) is ZooKeeperError.NO_NODE
        await end(other)

    run(go())


@pytest.mark.jvm
def test_a_thousand_multis_are_under_way_at_the_same_time(run, zookeeper):
    async def go() -> None:
        client = client_of(zookeeper)
        await client.connected()
        client.submit(Create("/epoch"))
        for number in range(1000):
            client.submit(Create(f"/{number}"))
        multis = [Multi((Check("/epoch", 0), SetData(f"/{number}", b"x" * 200, 0))) for number in range(1000)]
        promises = [client.submit(multi) for multi in multis]
        await of(promises[-1])
        for one in promises:
            assert isinstance(one.value, Results)
            checked, written = one.value.each
            assert checked == Done()
            assert isinstance(written, Done)
            assert written.stat is not None
            assert written.stat.version == 1
        await end(client)

    run(go())


@pytest.mark.drawn(6)
@pytest.mark.jvm
def test_more_watches_than_one_request_takes_come_back(run, new_zookeeper):
    ensemble = new_zookeeper()

    async def go() -> None:
        client, count = client_of(ensemble.connect, session_timeout_ms=LONG_TIMEOUT_MS), 2000
        states, heard = [], []
        client.on_session, client.on_watched = states.append, heard.append
        await client.connected()
        # More than a megabyte of paths, which is more than a server takes in one request.
        names = [f"/{number:04}-{'long' * 150}" for number in range(count)]
        there, missing = names[::2], names[1::2]
        for name in there:
            client.submit(Create(name))
            client.submit(GetData(name, watch=True))
        for name in missing:
            client.submit(Exists(name, watch=True))
        await of(client.submit(Exists("/")))
        await asyncio.to_thread(ensemble.kill)
        await until(lambda: ZooKeeperSessionState.DISCONNECTED in states)
        await asyncio.to_thread(ensemble.start)
        for name in missing:
            client.submit(Create(name))
        assert isinstance(children := await of(client.submit(GetChildren("/"))), Children)
        assert len(children.names) == count + 1
        assert states == [
            ZooKeeperSessionState.CONNECTED,
            ZooKeeperSessionState.DISCONNECTED,
            ZooKeeperSessionState.CONNECTED,
        ]
        assert [watched.path for watched in heard] == missing
        await end(client)

    run(go())


def test_ensemble_that_nobody_runs_is_named_with_what_to_do(run):
    async def go() -> None:
        client = client_of("127.0.0.1:1", connection_timeout_ms=300)
        with pytest.raises(ZooKeeperUnreachableError) as raised:
            await client.connected()
        assert str(raised.value) == (
            "no ZooKeeper server of 127.0.0.1:1 gave a session in 300 ms; start one, or correct zookeeper.connect, "
            "or raise zookeeper.connection.timeout.ms"
        )
        await end(client)

    run(go())


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        struct.pack("!i", 3) + b"abc",
        struct.pack("!i", -1),
        struct.pack("!i", 0),
    ],
    ids=["nothing", "another-protocol", "short", "negative", "empty"],
)
def test_server_that_is_none_is_left_and_looked_for_again(run, answer):
    async def go() -> None:
        connections = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            await reader.read(100)
            writer.write(answer)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = client_of(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        await until(lambda: connections > 1)
        assert client.session_id == 0
        await end(client)
        server.close()

    run(go())


def test_session_is_found_again_where_a_server_that_starts_takes_a_connection_and_never_answers_on_it(run):
    """ZooKeeper 3.9 does so between the opening of its port and the loading of its data."""

    async def go() -> None:
        asked_at: list[float] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked_at.append(asyncio.get_running_loop().time())
            await reader.read(100)
            if len(asked_at) > 1:
                writer.write(WELCOME)
            await reader.read()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            client = client_of(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
            await client.connected()
            first, second = asked_at
            assert second - first < TIMEOUT_MS / 1000
            await end(client)

    run(go())


@pytest.mark.drawn(6)
def test_server_that_is_slow_to_answer_is_given_more_time_at_each_try(run):
    async def go() -> None:
        connections = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            await reader.read(100)
            await asyncio.sleep(TIMEOUT_MS / 1000 * 0.6)
            writer.write(WELCOME)
            await reader.read()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            client = client_of(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
            await client.connected()
            assert connections > 1
            await end(client)

    run(go())


def test_connection_to_itself_is_none(run):
    """A client that looks for a server at a free port of its own machine may find itself there."""

    async def go() -> None:
        with socket.socket() as itself:
            itself.bind(("127.0.0.1", 0))
            itself.connect(itself.getsockname())
            itself.setblocking(False)
            ended, loop = [], asyncio.get_running_loop()
            connection = ServerConnection(
                loop, lambda callback: callback(), lambda *heard: ended.append(heard), lambda _, why: ended.append(why)
            )
            connection.send(b"hello")
            await loop.create_connection(lambda: connection, sock=itself)
            await connection.over
            await until(lambda: bool(ended))
            assert ended == ["it is a connection to itself"]

    run(go())


@pytest.mark.jvm
def test_node_without_data_has_zookeepers_null_and_an_empty_one_has_not(zookeeper):
    async def go() -> None:
        client = client_of(zookeeper)
        await client.connected()
        client.submit(Create("/null"))
        await of(client.submit(Create("/empty", b"")))
        assert await of(client.submit(GetData("/null"))) != ZooKeeperError.NO_NODE
        await end(client)

    asyncio.run(go())
    kazoo = KazooClient(zookeeper)
    kazoo.start()
    try:
        assert [kazoo.get(path)[0] for path in ("/null", "/empty")] == [None, b""]
    finally:
        kazoo.stop()
        kazoo.close()


@pytest.mark.jvm
def test_error_of_a_flow_reaches_the_guard_and_not_the_event_loop(run, zookeeper):
    async def go() -> None:
        errors: list[Exception] = []

        def guard(callback: Callable[[], None]) -> None:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - the guard hears of all
                errors.append(error)

        client = RealZooKeeper(parse_ensemble(zookeeper), TIMEOUT_MS, PATIENCE_MS, guard)
        await client.connected()
        client.submit(Exists("/")).then(lambda _: 1 // 0)
        assert isinstance(await of(client.submit(Exists("/"))), Done)
        assert [type(error) for error in errors] == [ZeroDivisionError]
        await end(client)

    run(go())


def test_without_kazoo_the_message_says_what_to_install():
    program = (
        "import importlib.util as util; find = util.find_spec;"
        "util.find_spec = lambda name, *rest: None if name == 'kazoo' else find(name, *rest);"
        "import oncelog, oncelog.server.zookeeper"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith("zookeeper.connect needs kazoo: pip install 'oncelog[cluster]'")


@pytest.mark.parametrize(
    ("connect", "expected"),
    [
        ("h:2182", Ensemble((("h", 2182),))),
        ("h", Ensemble((("h", 2181),))),
        ("a:1, b:2,c/kafka", Ensemble((("a", 1), ("b", 2), ("c", 2181)), "/kafka")),
        ("h:1/one/two/", Ensemble((("h", 1),), "/one/two")),
        ("h:1/", Ensemble((("h", 1),))),
        ("[::1]:1,[::2]", Ensemble((("::1", 1), ("::2", 2181)))),
    ],
)
def test_servers_and_chroot_are_read(connect, expected):
    assert parse_ensemble(connect) == expected


@pytest.mark.parametrize("connect", ["", "/kafka", ":1", "h:x", "h:0", "h:65536", "h:1/a//b", "h:1/../a"])
def test_what_is_no_address_is_refused_by_name(connect):
    with pytest.raises(ValueError, match=f"^zookeeper.connect={connect} "):
        parse_ensemble(connect)
