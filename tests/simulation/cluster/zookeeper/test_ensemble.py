"""What the model does where a real server cannot be asked: faults at chosen moments, and the same again from the same seed."""

from __future__ import annotations

from harness.zookeeper_worlds import SESSION_TIMEOUT_MS, SimulatedWorld
from oncelog.cluster.zookeeper.session import (
    Children,
    Create,
    Exists,
    GetChildren,
    NodeChange,
    Watched,
    ZooKeeperError,
    ZooKeeperSessionState,
)
from oncelog.simulation.cluster.zookeeper import ENSEMBLE

CONNECTED, DISCONNECTED, EXPIRED = (
    ZooKeeperSessionState.CONNECTED,
    ZooKeeperSessionState.DISCONNECTED,
    ZooKeeperSessionState.EXPIRED,
)


def test_process_that_is_paused_for_longer_than_its_timeout_loses_its_session():
    world = SimulatedWorld()
    client, witness = world.connect(), world.connect()
    world.ask(client, Create("/mine", is_ephemeral=True))
    world.ask(witness, Exists("/mine", watch=True))
    world.processes[client].paused_until_ms = world.queue.now_ms + 3 * SESSION_TIMEOUT_MS
    world.rest(2 * SESSION_TIMEOUT_MS)
    assert world.heard[witness].watched == [Watched("/mine", NodeChange.DELETED)]
    assert world.heard[client].states == [CONNECTED], "it cannot know yet"
    world.rest(3 * SESSION_TIMEOUT_MS)
    assert world.heard[client].states == [CONNECTED, DISCONNECTED, EXPIRED, CONNECTED]


def test_process_that_is_killed_loses_its_session_after_its_timeout():
    world = SimulatedWorld()
    client, witness = world.connect(), world.connect()
    world.ask(client, Create("/mine", is_ephemeral=True))
    world.processes[client].is_alive = False
    world.rest(SESSION_TIMEOUT_MS / 2)
    assert world.ask(witness, Exists("/mine")) is not ZooKeeperError.NO_NODE
    world.rest(SESSION_TIMEOUT_MS)
    assert world.ask(witness, Exists("/mine")) is ZooKeeperError.NO_NODE


def test_network_that_is_parted_is_found_out_by_both_ends():
    world = SimulatedWorld()
    client, other = world.connect(), world.connect()
    world.ask(client, Create("/mine", is_ephemeral=True))
    world.network.part(world.processes[client].node, ENSEMBLE, world.queue.now_ms + 3 * SESSION_TIMEOUT_MS)
    waiting = client.submit(Exists("/mine"))
    assert world.wait(waiting) is ZooKeeperError.CONNECTION_LOSS
    world.rest(SESSION_TIMEOUT_MS)
    assert world.ask(other, Exists("/mine")) is ZooKeeperError.NO_NODE
    world.until(lambda: world.heard[client].states == [CONNECTED, DISCONNECTED, EXPIRED, CONNECTED])


def test_session_is_ended_by_the_ensemble():
    world = SimulatedWorld()
    client = world.connect()
    session_id = client.session_id
    world.ask(client, Create("/mine", is_ephemeral=True))
    world.ensemble.expire(session_id)
    assert session_id not in world.ensemble.session_ids
    world.until(lambda: world.heard[client].states == [CONNECTED, DISCONNECTED, EXPIRED, CONNECTED])
    assert world.ensemble.session_ids == [client.session_id]


def test_no_session_expires_while_there_is_no_quorum_and_a_dead_one_does_after_it():
    world = SimulatedWorld()
    client, dead = world.connect(), world.connect()
    session_id, dead_id = client.session_id, dead.session_id
    world.processes[dead].is_alive = False
    world.ensemble.stop(world.queue.now_ms + 10 * SESSION_TIMEOUT_MS)
    waiting = client.submit(Exists("/"))
    assert world.wait(waiting) is ZooKeeperError.CONNECTION_LOSS
    world.rest(9 * SESSION_TIMEOUT_MS)
    assert world.ensemble.session_ids == [session_id, dead_id]
    world.rest(3 * SESSION_TIMEOUT_MS)
    assert world.ensemble.session_ids == [session_id]
    assert world.heard[client].states == [CONNECTED, DISCONNECTED, CONNECTED]


def test_requests_in_doubt_are_carried_out_in_some_runs_and_not_in_others():
    carried_out = set()
    for seed in range(40):
        world = SimulatedWorld(seed)
        client, other = world.connect(), world.connect()
        promises = [client.submit(Create(f"/{number}")) for number in range(4)]
        world.cut(client)
        world.until(lambda promises=promises: all(one.is_resolved for one in promises))
        world.rest(100)
        children = world.ask(other, GetChildren("/"))
        assert isinstance(children, Children)
        assert children.names == tuple(str(number) for number in range(len(children.names)))
        carried_out.add(len(children.names))
    assert carried_out == {0, 1, 2, 3, 4}


def test_nothing_that_was_lost_is_carried_out_behind_the_first_answer_on_the_next_connection():
    late = 0
    for seed in range(10):
        world = SimulatedWorld(seed)
        client = world.connect()
        world.network.part(world.processes[client].node, ENSEMBLE, world.queue.now_ms + 10 * SESSION_TIMEOUT_MS)
        promises = [client.submit(Create(f"/{number}")) for number in range(4)]
        world.network.heal()
        world.cut(client)
        world.until(lambda promises=promises: all(one.is_resolved for one in promises))
        world.mend(client)
        children = world.ask(client, GetChildren("/"))
        assert isinstance(children, Children)
        late += not children.names
        world.rest(20 * SESSION_TIMEOUT_MS)
        assert world.ask(client, GetChildren("/")) == children
    assert late == 10, "what was lost was on its way by then"


def test_nothing_is_carried_out_while_there_is_no_quorum():
    for seed in range(10):
        world = SimulatedWorld(seed)
        client = world.connect()
        promises = [client.submit(Create(f"/{number}")) for number in range(4)]
        world.ensemble.stop(world.queue.now_ms + SESSION_TIMEOUT_MS)
        world.until(lambda promises=promises: all(one.is_resolved for one in promises))
        children = world.ask(client, GetChildren("/"))
        assert isinstance(children, Children)
        assert children.names == ()


def test_same_seed_gives_the_same_trace_and_another_one_another():
    def trace(seed: int) -> str:
        world = SimulatedWorld(seed)
        client, other = world.connect(), world.connect()
        for number in range(20):
            client.submit(Create(f"/{number}", is_ephemeral=True))
        world.cut(client)
        world.ask(other, GetChildren("/", watch=True))
        world.mend(client)
        world.until(lambda: client.session_id != 0)
        world.rest(3 * SESSION_TIMEOUT_MS)
        return world.queue.trace

    assert trace(1) == trace(1) != trace(2)


def test_process_whose_pause_ends_early_hears_answers_in_their_order():
    world = SimulatedWorld()
    client = world.connect()
    process = world.processes[client]
    process.paused_until_ms = world.queue.now_ms + SESSION_TIMEOUT_MS / 3
    before = client.submit(Create("/one"))
    world.rest(SESSION_TIMEOUT_MS / 6)
    process.paused_until_ms = 0.0
    assert world.wait(client.submit(Exists("/two"))) is ZooKeeperError.NO_NODE
    assert before.is_resolved
    assert world.wait(before) is not ZooKeeperError.NO_NODE


def test_node_that_somebody_deletes_is_gone_and_the_session_that_made_it_goes_on():
    world = SimulatedWorld()
    client, witness = world.connect(), world.connect()
    world.ask(client, Create("/mine", is_ephemeral=True))
    world.ask(witness, Exists("/mine", watch=True))
    world.ensemble.delete("/mine")
    world.ensemble.delete("/mine")
    assert world.ask(client, Exists("/mine")) is ZooKeeperError.NO_NODE
    world.until(lambda: world.heard[witness].watched == [Watched("/mine", NodeChange.DELETED)])
    assert world.heard[client].states == [CONNECTED]
