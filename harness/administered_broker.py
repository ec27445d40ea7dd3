"""What a member of a cluster does for administrators, over a ZooKeeper of a test; the test is the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from harness.broker_in_memory import ClientConnection, CountingRandom, Reply, SteppedDisk, WorkersAtOnce
from harness.wire import request_payload
from harness.zookeeper_worlds import World
from oncelog.broker.access import Access
from oncelog.broker.config.configuration import Settings
from oncelog.broker.dispatch import Dispatch
from oncelog.broker.readiness import Readiness, StartProgress
from oncelog.broker.slices import Slices
from oncelog.broker.storage.auto_creation import AutoTopicCreation
from oncelog.broker.storage.journal import Journal
from oncelog.broker.view import LEADER_DURING_DELETE, Leadership
from oncelog.cluster.altering import ClusterAlterations
from oncelog.cluster.apis import CLUSTER_APIS
from oncelog.cluster.configs import ClusterConfigs
from oncelog.cluster.members import ClusterMembers, Member, MemberEndpoint
from oncelog.cluster.shared_topics import SharedTopics
from oncelog.cluster.topic_changes import TopicChanges
from oncelog.cluster.zookeeper.session import (
    Check,
    Create,
    Data,
    Delete,
    GetChildren,
    GetData,
    Multi,
    Request,
    Result,
    SetData,
    Watched,
    ZooKeeper,
    ZooKeeperError,
    ZooKeeperSessionState,
)
from oncelog.cluster.zookeeper.watches import Watchers
from oncelog.cluster.zookeeper.znodes import ControllerZnode, decode_topic, paths
from oncelog.coordination import Promise, start

LISTENER = "PLAINTEXT"


class Spied:
    """Another's client of ZooKeeper: it notes what is asked, and may lose the answer to one request."""

    def __init__(self, client: ZooKeeper) -> None:
        self.client = client
        self.asked: list[Request] = []
        self._failing: tuple[type[Request], ZooKeeperError] | None = None
        self._overtaking: tuple[type[Request], Request] | None = None

    @property
    def on_watched(self) -> Callable[[Watched], None]:
        return self.client.on_watched

    @on_watched.setter
    def on_watched(self, hear: Callable[[Watched], None]) -> None:
        self.client.on_watched = hear

    @property
    def on_session(self) -> Callable[[ZooKeeperSessionState], None]:
        return self.client.on_session

    @on_session.setter
    def on_session(self, hear: Callable[[ZooKeeperSessionState], None]) -> None:
        self.client.on_session = hear

    @property
    def session_id(self) -> int:
        return self.client.session_id

    def submit(self, request: Request) -> Promise[Result]:
        self.asked.append(request)
        if self._overtaking is not None and isinstance(request, self._overtaking[0]):
            overtaking, self._overtaking = self._overtaking[1], None
            self.client.submit(overtaking)
        answer = self.client.submit(request)
        if self._failing is None or not isinstance(request, self._failing[0]):
            return answer
        error, self._failing = self._failing[1], None
        lost: Promise[Result] = Promise()
        answer.then(lambda _: lost.resolve(error))
        return lost

    def overtake(self, kind: type[Request], request: Request) -> None:
        """Have somebody else's request carried out right before the next of this kind."""
        self._overtaking = kind, request

    def lose_answer(self, kind: type[Request], error: ZooKeeperError = ZooKeeperError.CONNECTION_LOSS) -> None:
        """Have the next request of this kind carried out, and give this error in place of its answer."""
        self._failing = kind, error

    def close(self) -> None:
        self.client.close()

    @property
    def writes(self) -> list[Request]:
        return [one for one in self.asked if isinstance(one, Create | SetData | Delete | Multi | Check)]


class AdministeredBroker:
    """Broker 0 of brokers 0, 1 and 2, with what administrators ask. It is the controller's broker unless a test says otherwise."""

    def __init__(self, world: World, node_id: int = 0, brokers: int = 3, **settings: str) -> None:
        self.world = world
        self.node_id = node_id
        self.is_active = True
        self.clock = world.clock
        self.client = world.new_client()
        self.zookeeper = Spied(self.client)
        watchers = Watchers(self.zookeeper)
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.settings = Settings({"zookeeper.connect": "here", "node.id": str(node_id)} | given)
        self.random = CountingRandom()
        self.members = ClusterMembers(LISTENER)
        self.live(*range(brokers))
        self.view = self.members
        self.cluster_id = "cluster"
        self.cluster_configs = ClusterConfigs(self.zookeeper, watchers, self.clock, self.settings, node_id)
        self.topic_changes = TopicChanges(self.zookeeper, self.clock, self.random, self.settings, self.members)
        disk = SteppedDisk()
        disk.make_directory("/data")
        self.shared_topics = self.topics = SharedTopics(
            Journal(disk, "/data", _fail),
            Slices(self.clock),
            self.settings,
            self.cluster_configs,
            _hosts_nothing,
            self.topic_changes.auto_create,
            _hosts_nothing,
            _hosts_nothing,
            _hosts_nothing,
            lambda _: False,
        )
        self.cluster_configs.follow(self.topics)
        self.auto_creation = AutoTopicCreation(self.clock, self.settings, self.topics)
        self.alterations = ClusterAlterations(self.clock, self.cluster_configs, node_id, self.settings, self.zookeeper)
        progress = StartProgress()
        for reached in Readiness:
            if reached > progress.reached:
                progress.reach(reached)
        self.access = Access(self.settings, None)
        self._dispatch = Dispatch(
            (self,), CLUSTER_APIS, self.access, self.clock, WorkersAtOnce(), progress, _fail, lambda: False
        )
        self._connection = ClientConnection()

    @property
    def controller(self) -> AdministeredBroker:
        return self

    def live(self, *broker_ids: int, racks: Mapping[int, str] | None = None) -> None:
        """These brokers are alive, as UpdateMetadata says it."""
        self.members.are_now(
            Member(one, (MemberEndpoint(LISTENER, "here", 9092 + one),), (racks or {}).get(one)) for one in broker_ids
        )

    def prepare(self) -> None:
        """Make what brokers make at their start, and be the controller in ZooKeeper; then follow the settings."""
        for path in paths.MADE_AT_START:
            for each in (*paths.parents(path), path):
                self.ask_zookeeper(Create(each))
        self.ask_zookeeper(Create(paths.CONTROLLER, ControllerZnode(0, 0).encode()))
        self.wait(self.cluster_configs.start())
        self.zookeeper.asked.clear()

    def wait(self, promise: Promise[Any]) -> Any:
        self.world.until(lambda: promise.is_resolved)
        return promise.value

    def ask_zookeeper(self, request: Request) -> Result:
        """What the test asks itself: it is not noted."""
        found: Result = self.wait(self.client.submit(request))
        return found

    def data(self, path: str) -> bytes | None:
        found = self.ask_zookeeper(GetData(path))
        return found.data if isinstance(found, Data) else None

    def children(self, path: str) -> tuple[str, ...]:
        names: tuple[str, ...] = getattr(self.ask_zookeeper(GetChildren(path)), "names", ())
        return names

    def send(self, api: str, version: int, **fields: Any) -> Reply:
        reply = Reply(api, version)
        payload = request_payload(api, version, fields, "tests")
        answer = self._dispatch.receive(self._connection, memoryview(payload))
        if isinstance(answer, Promise):
            reply.waiting = answer
            answer.then(reply.take)
        else:
            reply.take(answer)
        return reply

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        return self.answer(self.send(api, version, **fields))

    def answer(self, reply: Reply) -> Any:
        self.world.until(lambda: reply.came)
        return reply.message

    def tell(self, name: str) -> None:
        """Be the controller that has found leaders for a topic of ZooKeeper's."""
        data = self.data(paths.topic(name))
        assert data is not None, f"there is no {name} in ZooKeeper"
        node = decode_topic(name, data)
        assert node.topic_id is not None
        self.shared_topics.learn(
            name,
            node.topic_id,
            {
                index: Leadership(one.replicas[0], 0, one.replicas, one.replicas)
                for index, one in node.partitions.items()
            },
        )

    def tell_when_there(self, name: str, partition_count: int = 1) -> None:
        """Wait until a topic is in ZooKeeper, with so many partitions, and then be its controller."""
        while (data := self.data(paths.topic(name))) is None or len(
            decode_topic(name, data).partitions
        ) < partition_count:
            pass
        self.tell(name)

    def tell_it_is_gone(self, name: str) -> None:
        topic = self.topics.named(name)
        assert topic is not None
        gone = Leadership(LEADER_DURING_DELETE)
        self.shared_topics.learn(name, topic.topic_id, dict.fromkeys(range(len(topic.partitions)), gone))

    def make(
        self, name: str, placement: Mapping[int, tuple[int, ...]], configs: Mapping[str, str] | None = None
    ) -> UUID:
        """Make a topic, and be its controller."""
        made = start(self.topic_changes.create(name, dict(placement), configs or {}))
        topic_id: UUID = self.wait(made)
        self.tell(name)
        self.zookeeper.asked.clear()
        return topic_id


def _fail(error: BaseException) -> None:
    raise error


def _hosts_nothing(*_: Any) -> Any:
    raise AssertionError("no replica is here")
