"""A broker's entry among the live ones, on the model of ZooKeeper."""

from __future__ import annotations

import pytest

from harness.zookeeper_worlds import SESSION_TIMEOUT_MS, SimulatedWorld
from oncelog.cluster.liveness import NO_EPOCH, Registration
from oncelog.cluster.zookeeper.asking import SessionEndedError
from oncelog.cluster.zookeeper.session import (
    Create,
    Data,
    Delete,
    GetData,
    ZooKeeper,
    ZooKeeperError,
    ZooKeeperSessionState,
)
from oncelog.cluster.zookeeper.znodes import paths
from oncelog.coordination import Task, start
from oncelog.simulation.cluster.zookeeper import SimulatedZooKeeper

PATH, ENTRY = paths.broker(3), b"the entry"


class Registered:
    def __init__(self) -> None:
        self.world = SimulatedWorld()
        self.other = self.world.connect()
        self.ask(Create("/brokers"))
        self.ask(Create(paths.BROKER_IDS))

    def ask(self, request: Create | GetData | Delete) -> object:
        return self.world.ask(self.other, request)

    def begin(self) -> tuple[ZooKeeper, Registration]:
        client = self.world.connect()
        return client, Registration(client, self.world.clock, PATH, ENTRY)

    def wait(self, task: Task[None]) -> None:
        self.world.until(lambda: task.is_resolved)

    @property
    def entry(self) -> Data | None:
        found = self.ask(GetData(PATH))
        assert isinstance(found, Data) or found is ZooKeeperError.NO_NODE
        return found if isinstance(found, Data) else None

    def expire(self, client: ZooKeeper) -> None:
        assert isinstance(client, SimulatedZooKeeper)
        self.world.ensemble.expire(client.session_id)


@pytest.fixture
def registered() -> Registered:
    return Registered()


def test_the_epoch_is_that_of_the_transaction_which_made_the_entry(registered: Registered) -> None:
    """KIP-380: the czxid of the broker's znode is its epoch. Kafka's brokers make it in two steps: it has version 1."""
    client, registration = registered.begin()
    assert registration.epoch == NO_EPOCH
    registered.wait(start(registration.register()))
    entry = registered.entry
    assert entry is not None
    assert (entry.data, entry.stat.version, entry.stat.ephemeral_owner) == (ENTRY, 1, client.session_id)
    assert registration.epoch == entry.stat.czxid


def test_an_entry_of_an_earlier_life_is_waited_for_until_its_session_ends(registered: Registered) -> None:
    before, earlier = registered.begin()
    registered.wait(start(earlier.register()))
    _, registration = registered.begin()
    waiting = start(registration.register())
    registered.world.rest(10 * SESSION_TIMEOUT_MS)
    assert not waiting.is_resolved
    assert registration.epoch == NO_EPOCH
    registered.expire(before)
    registered.wait(waiting)
    assert registration.epoch > earlier.epoch


def test_an_own_entry_of_an_earlier_session_is_replaced(registered: Registered) -> None:
    client, registration = registered.begin()
    registered.wait(start(registration.register()))
    first = registration.epoch
    old_session = client.session_id
    registered.expire(client)
    registered.world.until(lambda: client.session_id not in (0, old_session))
    # As if the server that expires it had not come to the entry yet.
    registered.world.ensemble.tree.update(Create(PATH, b"", is_ephemeral=True), first + 1, old_session)
    registered.wait(start(registration.register()))
    entry = registered.entry
    assert entry is not None
    assert entry.stat.ephemeral_owner == client.session_id
    assert registration.epoch == entry.stat.czxid > first


def test_a_connection_that_is_lost_on_the_way_leaves_one_entry_and_its_epoch(registered: Registered) -> None:
    """Whether the request was carried out before or not: what counts is whose entry it is."""
    world = registered.world
    for cut_after in range(12):
        client, registration = registered.begin()
        task = start(registration.register())
        for _ in range(cut_after):
            world.queue.step(world.queue.now_ms + 1)
        world.cut(client)
        world.mend(client)
        registered.wait(task)
        entry = registered.entry
        assert entry is not None
        assert (entry.data, entry.stat.ephemeral_owner) == (ENTRY, client.session_id)
        assert registration.epoch == entry.stat.czxid
        registered.expire(client)


def test_a_session_that_ends_on_the_way_says_so(registered: Registered) -> None:
    client, registration = registered.begin()
    ended: list[bool] = []

    async def register() -> None:
        try:
            await registration.register()
        except SessionEndedError:
            ended.append(True)

    start(register())
    registered.expire(client)
    registered.world.until(lambda: bool(ended))
    assert registration.epoch == NO_EPOCH


def test_a_renewed_entry_has_another_epoch(registered: Registered) -> None:
    _, registration = registered.begin()
    registered.wait(start(registration.register()))
    first = registration.epoch
    registered.wait(start(registration.renew()))
    entry = registered.entry
    assert entry is not None
    assert registration.epoch == entry.stat.czxid > first


def test_an_entry_that_somebody_deleted_is_made_anew(registered: Registered) -> None:
    _, registration = registered.begin()
    registered.wait(start(registration.register()))
    registered.ask(Delete(PATH))
    registered.wait(start(registration.renew()))
    assert registered.entry is not None


def test_renewing_leaves_the_entry_of_another_session_alone(registered: Registered) -> None:
    """Another process with the same id has it: its entry is waited for."""
    other, another = registered.begin()
    registered.wait(start(another.register()))
    _, registration = registered.begin()
    renewing = start(registration.renew())
    registered.world.rest(2 * SESSION_TIMEOUT_MS)
    entry = registered.entry
    assert entry is not None
    assert entry.stat.ephemeral_owner == other.session_id
    assert not renewing.is_resolved
    assert ZooKeeperSessionState.EXPIRED not in registered.world.heard[other].states
