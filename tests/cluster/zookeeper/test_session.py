"""What a session with ZooKeeper promises. Every test runs against the model and against a real server."""

from __future__ import annotations

from harness.zookeeper_worlds import SESSION_TIMEOUT_MS, World
from oncelog.cluster.zookeeper.session import (
    Check,
    Children,
    Create,
    Created,
    Data,
    Delete,
    Done,
    Exists,
    GetChildren,
    GetData,
    Multi,
    NodeChange,
    Request,
    Results,
    SetData,
    Watched,
    ZooKeeper,
    ZooKeeperError,
    ZooKeeperSessionState,
)

CONNECTED, DISCONNECTED, EXPIRED = (
    ZooKeeperSessionState.CONNECTED,
    ZooKeeperSessionState.DISCONNECTED,
    ZooKeeperSessionState.EXPIRED,
)


def submit_all(world: World, client: ZooKeeper, *requests: Request) -> list[object]:
    """Hand them in together: their results."""
    promises = [client.submit(request) for request in requests]
    for one in promises:
        one.then(world.heard[client].result)
    world.until(lambda: all(one.is_resolved for one in promises))
    return [one.value for one in promises]


def lose_session(world: World, client: ZooKeeper) -> None:
    """Cut a client off until its session is over, and let it find out."""
    witness, name = world.connect(), f"/lives-as-long-as-{client.session_id}"
    assert isinstance(world.ask(client, Create(name, is_ephemeral=True)), Created)
    world.ask(witness, Exists(name, watch=True))
    world.cut(client)
    world.until(lambda: Watched(name, NodeChange.DELETED) in world.heard[witness].watched)
    world.mend(client)
    world.until(lambda: EXPIRED in world.heard[client].states)


def test_node_is_made_read_changed_and_deleted(world):
    client = world.connect()
    created = world.ask(client, Create("/a", b"one"))
    assert isinstance(created, Created)
    assert created.path == "/a"
    assert created.stat is not None
    assert (created.stat.version, created.stat.child_count, created.stat.ephemeral_owner) == (0, 0, 0)
    assert created.stat.czxid == created.stat.mzxid

    written = world.ask(client, SetData("/a", b"two", version=0))
    assert isinstance(written, Done)
    assert written.stat is not None
    assert written.stat.version == 1
    assert written.stat.mzxid > written.stat.czxid == created.stat.czxid

    assert world.ask(client, GetData("/a")) == Data(b"two", written.stat)
    assert world.ask(client, Exists("/a")) == Done(written.stat)
    assert world.ask(client, Delete("/a", version=1)) == Done()
    assert world.ask(client, GetData("/a")) is ZooKeeperError.NO_NODE


def test_each_error_has_its_cause(world):
    client = world.connect()
    submit_all(world, client, Create("/a"), Create("/a/b"), Create("/e", is_ephemeral=True))
    assert submit_all(
        world,
        client,
        Create("/a"),
        Create("/none/b"),
        Create("/e/b"),
        SetData("/a", b"", version=1),
        SetData("/none", b""),
        Delete("/a"),
        Delete("/a/b", version=3),
        Delete("/none"),
        Exists("/none"),
        GetChildren("/none"),
    ) == [
        ZooKeeperError.NODE_EXISTS,
        ZooKeeperError.NO_NODE,
        ZooKeeperError.NO_CHILDREN_FOR_EPHEMERALS,
        ZooKeeperError.BAD_VERSION,
        ZooKeeperError.NO_NODE,
        ZooKeeperError.NOT_EMPTY,
        ZooKeeperError.BAD_VERSION,
        ZooKeeperError.NO_NODE,
        ZooKeeperError.NO_NODE,
        ZooKeeperError.NO_NODE,
    ]


def test_sequential_names_count_what_was_ever_made_under_a_parent(world):
    client = world.connect()
    results = submit_all(
        world,
        client,
        Create("/queue"),
        Create("/queue/one"),
        Delete("/queue/one"),
        Create("/queue/n_", is_sequential=True),
        Create("/queue/n_", is_sequential=True),
        Create("/queue/", is_sequential=True),
    )
    assert [result.path for result in results[3:]] == [
        "/queue/n_0000000001",
        "/queue/n_0000000002",
        "/queue/0000000003",
    ]


def test_children_come_sorted_without_their_parents_path(world):
    client = world.connect()
    submit_all(world, client, *(Create(path) for path in ("/a", "/a/2", "/a/10", "/a/1", "/a/1/x")))
    children = world.ask(client, GetChildren("/a"))
    assert isinstance(children, Children)
    assert children.names == ("1", "10", "2")
    assert (children.stat.child_count, children.stat.children_version) == (3, 3)


def test_multi_is_done_whole(world):
    client = world.connect()
    world.ask(client, Create("/epoch", b"7"))
    results = world.ask(
        client,
        Multi(
            (
                Check("/epoch", 0),
                Create("/a", b"1"),
                Create("/a/n", is_sequential=True),
                SetData("/a", b"2", version=0),
                Delete("/epoch"),
            )
        ),
    )
    assert isinstance(results, Results)
    checked, made, numbered, written, deleted = results.each
    assert (checked, made, numbered, deleted) == (
        Done(),
        Created("/a", None),
        Created("/a/n0000000000", None),
        Done(),
    )
    stored = world.ask(client, GetData("/a"))
    assert isinstance(stored, Data)
    assert stored.data == b"2"
    assert stored.stat.czxid == stored.stat.mzxid, "all of a multi is one transaction"
    assert written == Done(stored.stat)


def test_multi_with_one_failure_does_nothing_and_says_which(world):
    client = world.connect()
    submit_all(world, client, Create("/epoch"), SetData("/epoch", b"new"), Create("/old"))
    multi = Multi((Create("/a"), Delete("/old"), Check("/epoch", 0), SetData("/epoch", b"stale")))
    assert world.ask(client, multi) == Results(
        (
            ZooKeeperError.ROLLED_BACK,
            ZooKeeperError.ROLLED_BACK,
            ZooKeeperError.BAD_VERSION,
            ZooKeeperError.NOT_TRIED,
        )
    )
    children = world.ask(client, GetChildren("/"))
    assert isinstance(children, Children)
    assert children.names == ("epoch", "old")
    assert world.ask(client, Create("/n", is_sequential=True)).path == "/n0000000002", "nothing was counted either"


def test_empty_multi_has_no_results(world):
    assert world.ask(world.connect(), Multi(())) == Results(())


def test_results_come_in_the_order_of_the_requests(world):
    client = world.connect()
    world.ask(client, Create("/a"))
    order: list[int] = []
    promises = [client.submit(SetData("/a", b"", version=number)) for number in range(200)]
    for number, one in enumerate(promises):
        one.then(lambda _, number=number: order.append(number))
    world.until(lambda: len(order) == len(promises))
    assert order == list(range(200))
    assert [one.value.stat.version for one in promises] == list(range(1, 201))


def test_watch_hears_the_first_change_and_no_other(world):
    client, other = world.connect(), world.connect()
    world.ask(client, Create("/a"))
    world.ask(client, GetData("/a", watch=True))
    submit_all(world, other, SetData("/a", b"1"), SetData("/a", b"2"), Delete("/a"))
    world.ask(client, Exists("/"))
    assert world.heard[client].watched == [Watched("/a", NodeChange.DATA)]


def test_watch_is_heard_before_the_new_state_is_seen(world):
    """ZooKeeper: "A client will see the watch event for a znode it is watching before seeing the new data"."""
    client = world.connect()
    world.ask(client, Create("/a"))
    heard = world.heard[client].all
    heard.clear()
    before, written, after = submit_all(world, client, GetData("/a", watch=True), SetData("/a", b"1"), GetData("/a"))
    assert heard == [before, Watched("/a", NodeChange.DATA), written, after]


def test_each_kind_of_watch_hears_its_changes(world):
    client = world.connect()
    heard = world.heard[client].watched
    submit_all(world, client, Create("/a"), Exists("/a/b", watch=True), GetChildren("/a", watch=True))
    world.ask(client, Create("/a/b"))
    assert heard == [Watched("/a/b", NodeChange.CREATED), Watched("/a", NodeChange.CHILDREN)]
    heard.clear()
    submit_all(world, client, Exists("/a/b", watch=True), GetChildren("/a", watch=True), SetData("/a/b", b"1"))
    assert heard == [Watched("/a/b", NodeChange.DATA)]
    submit_all(world, client, Delete("/a/b"))
    assert heard == [Watched("/a/b", NodeChange.DATA), Watched("/a", NodeChange.CHILDREN)]


def test_deletion_is_heard_once_where_data_and_children_are_watched(world):
    client = world.connect()
    submit_all(world, client, Create("/a"), GetData("/a", watch=True), GetChildren("/a", watch=True), Delete("/a"))
    world.ask(client, Exists("/"))
    assert world.heard[client].watched == [Watched("/a", NodeChange.DELETED)]


def test_reading_what_is_not_there_sets_no_watch(world):
    client = world.connect()
    submit_all(world, client, GetData("/a", watch=True), GetChildren("/a", watch=True), Create("/a"))
    world.ask(client, Exists("/"))
    assert world.heard[client].watched == []


def test_multi_that_fails_is_heard_by_no_watch(world):
    client = world.connect()
    submit_all(world, client, Create("/a"), GetData("/a", watch=True), GetChildren("/", watch=True))
    world.ask(client, Multi((SetData("/a", b"1"), Create("/b"), Check("/a", 7))))
    world.ask(client, Exists("/"))
    assert world.heard[client].watched == []


def test_ephemeral_node_ends_with_its_session(world):
    client, other = world.connect(), world.connect()
    created = world.ask(client, Create("/controller", is_ephemeral=True))
    assert isinstance(created, Created)
    assert created.stat is not None
    assert created.stat.ephemeral_owner == client.session_id != other.session_id
    world.ask(other, Exists("/controller", watch=True))
    client.close()
    world.until(lambda: bool(world.heard[other].watched))
    assert world.heard[other].watched == [Watched("/controller", NodeChange.DELETED)]
    assert client.session_id == 0


def test_nothing_is_called_back_after_close(world):
    client, other = world.connect(), world.connect()
    submit_all(world, client, Create("/a"), GetData("/a", watch=True))
    world.heard[client].all.clear()
    promise = client.submit(GetData("/a"))
    client.close()
    assert isinstance(world.ask(other, SetData("/a", b"1")), Done)
    never = client.submit(GetData("/a"))
    world.ask(other, Exists("/"))
    assert not promise.is_resolved
    assert not never.is_resolved
    assert world.heard[client].all == []


def test_client_may_be_closed_where_it_hears_of_something(world):
    client, other = world.connect(), world.connect()
    submit_all(world, client, Create("/a"), GetData("/a", watch=True))
    client.on_watched = lambda _: client.close()
    later = client.submit(SetData("/a", b"1"))
    world.until(lambda: client.session_id == 0)
    world.ask(other, Exists("/"))
    assert not later.is_resolved


def test_client_may_be_closed_where_it_hears_that_a_request_is_lost(world):
    client = world.connect()
    first, second = client.submit(Exists("/")), client.submit(Exists("/"))
    first.then(lambda _: client.close())
    world.cut(client)
    world.until(lambda: first.is_resolved)
    assert first.value is ZooKeeperError.CONNECTION_LOSS
    assert not second.is_resolved


def test_broken_connection_ends_what_is_under_way_and_not_the_session(world):
    client = world.connect()
    session_id, heard = client.session_id, world.heard[client]
    world.ask(client, Create("/mine", is_ephemeral=True))
    heard.all.clear()
    promises = [client.submit(Create(f"/n{number}")) for number in range(50)]
    for one in promises:
        one.then(heard.result)
    world.cut(client)
    world.until(lambda: all(one.is_resolved for one in promises))
    # Those that were answered, then the news, then those of which nobody knows.
    index = heard.all.index(DISCONNECTED)
    assert all(isinstance(result, Created) for result in heard.all[:index])
    assert set(heard.all[index + 1 :]) <= {ZooKeeperError.CONNECTION_LOSS}

    waiting = client.submit(Exists("/mine"))
    world.mend(client)
    assert isinstance(world.wait(waiting), Done)
    assert heard.states == [CONNECTED, DISCONNECTED, CONNECTED]
    assert client.session_id == session_id


def test_what_was_carried_out_in_doubt_is_a_first_part(world):
    """Nobody knows which requests a broken connection carried to the server, but it carries them in order."""
    client = world.connect()
    for number in range(50):
        client.submit(Create(f"/n{number:02}"))
    world.cut(client)
    world.mend(client)
    children = world.ask(client, GetChildren("/"))
    while children is ZooKeeperError.CONNECTION_LOSS:
        children = world.ask(client, GetChildren("/"))
    assert isinstance(children, Children)
    assert list(children.names) == [f"n{number:02}" for number in range(len(children.names))]


def test_watches_come_back_with_the_connection(world):
    client, other = world.connect(), world.connect()
    heard = world.heard[client]
    submit_all(world, client, *(Create(path) for path in ("/same", "/changed", "/deleted", "/parent", "/again")))
    for path in ("/same", "/changed", "/deleted", "/again"):
        world.ask(client, GetData(path, watch=True))
    world.ask(client, GetChildren("/parent", watch=True))
    world.ask(client, GetChildren("/same", watch=True))
    world.ask(client, Exists("/made", watch=True))
    world.ask(client, Exists("/not-made", watch=True))
    world.cut(client)
    world.until(lambda: DISCONNECTED in heard.states)
    submit_all(
        world,
        other,
        SetData("/changed", b"1"),
        SetData("/changed", b"2"),
        Delete("/deleted"),
        Create("/parent/child"),
        Create("/made"),
        Delete("/again"),
        Create("/again"),
    )
    assert heard.watched == []
    heard.all.clear()
    read = client.submit(GetData("/changed"))
    read.then(heard.result)
    world.mend(client)
    world.wait(read)
    missed = {
        Watched("/changed", NodeChange.DATA),
        Watched("/deleted", NodeChange.DELETED),
        Watched("/parent", NodeChange.CHILDREN),
        Watched("/made", NodeChange.CREATED),
        # Its versions are those of another node; to the server it is one with newer data.
        Watched("/again", NodeChange.DATA),
    }
    assert heard.all[0] is CONNECTED
    assert set(heard.all[1:-1]) == missed, "and before any newer result"
    assert heard.all[-1] == read.value
    heard.watched.clear()
    submit_all(world, other, SetData("/same", b"1"), SetData("/changed", b"3"), Create("/same/child"))
    submit_all(world, other, Create("/not-made"))
    world.ask(client, Exists("/"))
    assert heard.watched == [
        Watched("/same", NodeChange.DATA),
        Watched("/same", NodeChange.CHILDREN),
        Watched("/not-made", NodeChange.CREATED),
    ]


def test_session_that_expired_is_followed_by_another(world):
    client, other = world.connect(), world.connect()
    heard, session_id = world.heard[client], client.session_id
    submit_all(world, client, Create("/a"), GetData("/a", watch=True), Create("/mine", is_ephemeral=True))
    lose_session(world, client)
    world.until(lambda: heard.states[-1] is CONNECTED)
    assert heard.states == [CONNECTED, DISCONNECTED, EXPIRED, CONNECTED]
    assert client.session_id not in (0, session_id)
    assert world.ask(client, Exists("/mine")) is ZooKeeperError.NO_NODE
    world.ask(other, SetData("/a", b"1"))
    world.ask(client, Exists("/"))
    world.cut(client)
    world.until(lambda: heard.states[-1] is DISCONNECTED)
    world.ask(other, SetData("/a", b"2"))
    world.mend(client)
    world.ask(client, Exists("/"))
    assert heard.watched == [], "its watches are gone, and no later connection brings them back"


def test_idle_session_lives_on(world):
    client = world.connect()
    session_id = client.session_id
    world.rest(2.5 * SESSION_TIMEOUT_MS)
    assert isinstance(world.ask(client, Exists("/")), Done)
    assert world.heard[client].states == [CONNECTED]
    assert client.session_id == session_id


def test_what_is_answered_was_heard_not_before_it_was_sent(world):
    """From there on the servers count the session's time."""
    client = world.connect()
    began_ms = world.clock.monotonic_ms()
    assert 0 <= client.silence_ms < SESSION_TIMEOUT_MS
    world.rest(SESSION_TIMEOUT_MS / 2)
    world.ask(client, Exists("/"))
    assert client.silence_ms <= world.clock.monotonic_ms() - began_ms - SESSION_TIMEOUT_MS / 2
    world.cut(client, silently=True)
    client.submit(Exists("/"))
    world.rest(SESSION_TIMEOUT_MS / 3)
    assert client.silence_ms >= SESSION_TIMEOUT_MS / 3
    world.mend(client)
    world.until(lambda: world.heard[client].states[-1] is CONNECTED and client.silence_ms < SESSION_TIMEOUT_MS / 3)


def test_what_waited_for_a_connection_ends_with_the_session(world):
    client = world.connect()
    heard = world.heard[client]
    after: list[object] = []

    def on_session(state: ZooKeeperSessionState) -> None:
        heard.states.append(state)
        heard.all.append(state)
        if state is DISCONNECTED:
            for path in ("/one", "/two"):
                client.submit(Create(path)).then(heard.result)
        if state is EXPIRED:
            client.submit(Create("/three", is_ephemeral=True)).then(after.append)

    client.on_session = on_session
    lose_session(world, client)
    world.until(lambda: bool(after))
    assert heard.all[heard.all.index(DISCONNECTED) :] == [
        DISCONNECTED,
        EXPIRED,
        ZooKeeperError.SESSION_EXPIRED,
        ZooKeeperError.SESSION_EXPIRED,
        CONNECTED,
    ]
    children = world.ask(client, GetChildren("/"))
    assert isinstance(children, Children)
    assert children.names == ("three",), "nothing of one session is done in the next"
    assert isinstance(after[0], Created)
    assert after[0].stat is not None
    assert after[0].stat.ephemeral_owner == client.session_id


def test_silent_connection_is_left_while_there_is_always_something_to_send(world):
    client = world.connect()
    heard = world.heard[client]

    def send_another(_: object) -> None:
        client.submit(Exists("/")).then(send_another)

    send_another(None)
    world.cut(client, silently=True)
    world.until(lambda: DISCONNECTED in heard.states)
    world.mend(client)
    world.until(lambda: heard.states[-1] is CONNECTED)
    client.close()


def test_session_outlives_an_ensemble_that_stops(own_world):
    client = own_world.connect()
    heard, session_id = own_world.heard[client], client.session_id
    own_world.ask(client, Create("/mine", b"1", is_ephemeral=True))
    own_world.ask(client, GetData("/mine", watch=True))
    own_world.stop_ensemble()
    own_world.until(lambda: DISCONNECTED in heard.states)
    waiting = client.submit(SetData("/mine", b"2"))
    own_world.start_ensemble()
    assert isinstance(own_world.wait(waiting), Done)
    assert client.session_id == session_id
    assert heard.states == [CONNECTED, DISCONNECTED, CONNECTED]
    assert heard.watched == [Watched("/mine", NodeChange.DATA)]
