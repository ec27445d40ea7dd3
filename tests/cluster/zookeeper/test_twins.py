"""The model against a real server: the same requests, watches and cuts at both, and everything that is heard compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any

import pytest

from harness.zookeeper_worlds import RealWorld, SimulatedWorld, World
from oncelog.cluster.zookeeper.session import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    NodeChange,
    Request,
    Result,
    SetData,
    Stat,
    Write,
    ZooKeeper,
    ZooKeeperError,
    ZooKeeperSessionState,
)
from oncelog.coordination import Promise

PATHS = ("/a", "/b", "/a/x", "/a/y", "/b/z", "/a/x/1")
CLIENTS = 2
LOSSES = {ZooKeeperError.CONNECTION_LOSS, ZooKeeperError.SESSION_EXPIRED}
STEPS = 200
ERRORS = set(ZooKeeperError) - {ZooKeeperError.NO_AUTH, ZooKeeperError.SYSTEM_ERROR} - LOSSES
Log = list[Any]


class Draw:
    """Requests at random, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._draws: list[Callable[[], Request]] = [self.write, self.write, self.multi, self.read, self.read]

    def step(self) -> tuple[str, int]:
        kind = self._random.choices(("batch", "cut", "replace"), weights=(40, 1, 1))[0]
        return kind, self._random.randrange(CLIENTS)

    def batch(self) -> list[Request]:
        return [self._random.choice(self._draws)() for _ in range(self._random.randint(1, 6))]

    def read(self) -> Request:
        kind = self._random.choice((GetData, Exists, GetChildren))
        return kind(self._random.choice(("/", *PATHS)), watch=self._random.random() < 0.6)

    def write(self) -> Write:
        path = self._random.choice(PATHS)
        version = self._random.choice((ANY_VERSION, ANY_VERSION, 0, 1, 2))
        kind = self._random.randrange(8)
        if kind < 4:
            is_sequential = self._random.random() < 0.2
            is_ephemeral = path == "/b" or self._random.random() < 0.3
            return Create(path, self._random.randbytes(3), is_ephemeral, is_sequential)
        if kind < 6:
            return SetData(path, self._random.randbytes(3), version)
        return Delete(path, version)

    def multi(self) -> Multi:
        writes: list[Write] = [self.write() for _ in range(self._random.randint(0, 4))]
        if self._random.random() < 0.5:
            check = Check(self._random.choice(PATHS), self._random.choice((ANY_VERSION, 0, 1)))
            writes.insert(self._random.randint(0, len(writes)), check)
        return Multi(tuple(writes))


class Run:
    """Takes the steps that are drawn in one world, and keeps what each client hears."""

    def __init__(self, world: World, seed: int) -> None:
        self.log: Log = []
        self._world = world
        self._draw = Draw(seed)
        self._sessions: dict[int, str] = {0: "nobody"}
        self._clients = [self._connect() for _ in range(CLIENTS)]

    def take_steps(self) -> Log:
        for _ in range(STEPS):
            kind, number = self._draw.step()
            self.log.append((kind, number))
            if kind == "batch":
                self._batch(self._clients[number])
            elif kind == "cut":
                self._cut(self._clients[number], self._clients[1 - number])
            else:
                self._replace(number)
        return self._comparable()

    def _batch(self, client: ZooKeeper) -> None:
        for one in self._submit(client):
            self._world.wait(one)
        self._note()

    def _cut(self, client: ZooKeeper, other: ZooKeeper) -> None:
        """The other one changes what this one watches."""
        states = self._world.heard[client].states
        count = len(states)
        self._world.cut(client)
        self._world.until(lambda: states[count:] == [ZooKeeperSessionState.DISCONNECTED])
        waiting = self._submit(client)
        for one in self._submit(other):
            self._world.wait(one)
        self._world.mend(client)
        for one in waiting:
            self._world.wait(one)
        self._note()

    def _submit(self, client: ZooKeeper) -> list[Promise[Result]]:
        requests = self._draw.batch()
        self.log += requests
        promises = [client.submit(request) for request in requests]
        for one in promises:
            one.then(self._world.heard[client].result)
        return promises

    def _replace(self, number: int) -> None:
        """A session ends; its ephemeral nodes go in no order that anybody promises."""
        watcher = self._clients[1 - number]
        self._clients[number].close()
        self._clients[number] = self._connect()
        self._world.ask(watcher, Exists("/"))
        heard = self._world.heard[watcher].all
        heard.sort(key=repr)
        self._note()

    def _connect(self) -> ZooKeeper:
        client = self._world.connect()
        self._sessions[client.session_id] = f"session {len(self._sessions)}"
        return client

    def _note(self) -> None:
        """What was heard by now, once everything has come: an answer comes behind what was said before it."""
        for number, client in enumerate(self._clients):
            self._world.ask(client, Exists("/"))
            heard = self._world.heard[client]
            self.log += [(number, one) for one in heard.all]
            heard.all.clear()

    def _comparable(self) -> Log:
        """Sessions by their order, and transactions by theirs."""
        zxids = sorted({zxid for stat in _stats(self.log) for zxid in (stat.czxid, stat.mzxid)})
        ranks = {zxid: rank for rank, zxid in enumerate(zxids)}

        def comparable(value: Any) -> Any:
            match value:
                case Stat():
                    owner: Any = self._sessions[value.ephemeral_owner]
                    transactions = {"czxid": ranks[value.czxid], "mzxid": ranks[value.mzxid]}
                    return replace(value, **transactions, ephemeral_owner=owner, created_ms=0, modified_ms=0)
                case tuple():
                    return tuple(map(comparable, value))
                case _ if is_dataclass(value) and not isinstance(value, type):
                    return (type(value), *(comparable(getattr(value, field.name)) for field in fields(value)))
            return value

        return [comparable(entry) for entry in self.log]


def _stats(value: Any) -> list[Stat]:
    match value:
        case Stat():
            return [value]
        case list() | tuple():
            return [stat for one in value for stat in _stats(one)]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _stats([getattr(value, field.name) for field in fields(value)])
    return []


@pytest.mark.jvm
@pytest.mark.drawn(6)
@pytest.mark.parametrize("seed", range(8))
def test_model_and_real_server_tell_the_same(seed, zookeeper):
    simulated, real = SimulatedWorld(seed), RealWorld(zookeeper)
    try:
        told_by_model = Run(simulated, seed).take_steps()
        told_by_server = Run(real, seed).take_steps()
    finally:
        simulated.end()
        real.end()
    for number, (model, server) in enumerate(zip(told_by_model, told_by_server, strict=False)):
        assert model == server, f"entry {number}, after {told_by_model[max(0, number - 8) : number]}"
    assert len(told_by_model) == len(told_by_server)
    told = repr(told_by_model)
    assert all(repr(kind) in told for kind in (*NodeChange, *ERRORS)), "the steps that were drawn say too little"
