"""Who hears what of the one client of ZooKeeper."""

from __future__ import annotations

from oncelog.cluster.zookeeper.session import (
    Create,
    Exists,
    GetChildren,
    GetData,
    NodeChange,
    SetData,
    Watched,
    ZooKeeperSessionState,
)
from oncelog.cluster.zookeeper.watches import Watchers


def test_change_is_heard_by_who_listens_to_the_node_or_above_it(world):
    client = world.new_client()
    watchers = Watchers(client)
    heard: dict[str, list[Watched]] = {path: [] for path in ("/a", "/a/b", "/a/c", "/ab")}
    for path, events in heard.items():
        watchers.listen(path, events.append)
    for path in heard:
        world.ask(client, Create(path))
        world.ask(client, GetData(path, watch=True))
    world.ask(client, SetData("/a/b", b"new"))
    world.ask(client, SetData("/ab", b"new"))
    changed = Watched("/a/b", NodeChange.DATA)
    assert heard == {"/a": [changed], "/a/b": [changed], "/a/c": [], "/ab": [Watched("/ab", NodeChange.DATA)]}


def test_all_who_listen_hear_of_a_change_and_of_the_session(world):
    client = world.new_client()
    watchers = Watchers(client)
    heard: list[object] = []
    for _ in range(2):
        watchers.listen("/a", heard.append)
        watchers.listen_to_sessions(heard.append)
    world.until(lambda: bool(heard))
    assert heard == [ZooKeeperSessionState.CONNECTED] * 2
    world.ask(client, Exists("/a", watch=True))
    world.ask(client, Create("/a"))
    world.ask(client, GetChildren("/a"))
    assert heard[2:] == [Watched("/a", NodeChange.CREATED)] * 2
