"""One run of a cluster: a seed, brokers over a ZooKeeper, clients, faults; then no faults, and everything is checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from random import Random

from oncelog.client.consumer.core import ConsumedRecord
from oncelog.client.net.settings import ClientSettings
from oncelog.client.values import IsolationLevel, TopicPartition
from oncelog.simulation import workload
from oncelog.simulation.clients import ClientNode
from oncelog.simulation.cluster.agreement import Agreement
from oncelog.simulation.cluster.conditions import SIZES, member_settings, replicated_topics
from oncelog.simulation.cluster.faults import plan_cluster
from oncelog.simulation.cluster.injection import ClusterInjection
from oncelog.simulation.cluster.ledger import Ledger
from oncelog.simulation.cluster.member_node import MemberNode
from oncelog.simulation.cluster.metadata import ClusterMetadata
from oncelog.simulation.cluster.written_states import WrittenStates
from oncelog.simulation.conditions import few_collections, hidden_paths_open
from oncelog.simulation.disk import SimulatedDisk
from oncelog.simulation.driving import MINUTE_MS, Driver, described
from oncelog.simulation.events import Event, EventQueue, stream
from oncelog.simulation.history import Outcome, RunHistory
from oncelog.simulation.keyed import KeyedHistory
from oncelog.simulation.network import Network
from oncelog.simulation.plain_commits import PlainCommits
from oncelog.simulation.short_lived import ShortLivedHistory
from oncelog.simulation.simulation import Report
from oncelog.simulation.transport import Play
from oncelog.simulation.workload import PARTITIONS
from oncelog.simulation.zookeeper import SimulatedEnsemble

READY_MS = MINUTE_MS
LIVENESS_MS = 4 * MINUTE_MS
"""The operating system gives up a silent connection after two of them, and a transaction lasts one."""
CALM_MS = (1_000.0, 10_000.0)
PROTOCOL = "classic"
"""A cluster over ZooKeeper has no other one."""
WRITERS = ("writer", "plain")


class ClusterSimulation:
    def __init__(self, seed: int, minutes: float, left_out: Collection[int] = ()) -> None:
        self.seed = seed
        self.minutes = minutes
        self.queue = EventQueue()
        self.driver = Driver(self.queue, self._happened, lambda node: self.injection.broker_ended_in_step(node))
        self.network = Network(self.queue, stream(seed, "network"))
        self.ensemble = SimulatedEnsemble(self.network, stream(seed, "zookeeper"))
        self.history = RunHistory()
        self._draw = draw = stream(seed, "settings of the cluster")
        settings = member_settings(draw)
        self.brokers = [self._broker(broker_id, settings) for broker_id in range(draw.choice(SIZES))]
        self._broker_of = {broker.name: broker for broker in self.brokers}
        self._topics = replicated_topics(draw)
        self.shared = workload.Shared(
            self.history,
            KeyedHistory(True),
            ShortLivedHistory(),
            PlainCommits(lambda: 0),
            [workload.INPUT],
            lambda _: None,
        )
        self.clients = self._clients(draw)
        self.metadata = ClusterMetadata(self.ensemble)
        self.states = WrittenStates(self.metadata)
        self.ledger = Ledger(self.brokers, self.metadata)
        self.agreement = Agreement(self.brokers, self.metadata, self.ledger)
        self.injection = ClusterInjection(
            self.queue, self.network, self.ensemble, self.brokers, self.clients, self.metadata
        )
        self.faults = plan_cluster(seed, minutes * MINUTE_MS, left_out)

    def run(self) -> Report:
        """Raises nothing: what fails is in the report."""
        failure: str | None = None
        with few_collections(), hidden_paths_open(stream(self.seed, "constants")):
            try:
                self._play()
            except Exception as error:  # noqa: BLE001 - a bug of a broker comes out here
                failure = described(error)
        return self._report(failure)

    def _play(self) -> None:
        for broker in self.brokers:
            self.queue.after(self._draw.uniform(0, 500), f"{broker.name} start", broker.start)
        self.driver.advance(self.queue.now_ms + 500)
        self.driver.until_settled("the brokers do not assemble", self.agreement.unassembled, READY_MS)
        maker = self._client("maker", lambda node: workload.make_topics(node, self._topics))
        self.driver.finish("making the topics", maker, READY_MS)
        self.injection.schedule(self.faults)
        for client in self.clients:
            self.queue.after(self._draw.uniform(0, 500), f"{client.name} start", client.start)
        self.driver.advance(self.queue.now_ms + self.minutes * MINUTE_MS)
        self.injection.end()
        self._settle()
        self._check()

    def _settle(self) -> None:
        """Without faults, everything comes to its end in time."""
        until_settled = partial(self.driver.until_settled, within_ms=LIVENESS_MS)
        until_settled("partitions are not led and in sync", self.agreement.unled)
        self.driver.advance(self.queue.now_ms + self._draw.uniform(*CALM_MS))
        until_settled("nobody commits anything", self._nothing_committed)
        self.shared.stop_writing()
        until_settled("the writers do not end", lambda: self._busy_client(WRITERS))
        until_settled("transactions do not end", self.agreement.unsettled)
        view = self._view([one for one in self._partitions() if one.topic == workload.INPUT])
        ends = {one: records[-1][0] + 1 for one, records in view.items() if records}
        until_settled("what is written is not copied", lambda: self._uncopied(ends))
        self.shared.is_over = True
        until_settled("the clients do not end", lambda: self._busy_client(("",)))
        until_settled("transactions do not end", self.agreement.unsettled)

    def _nothing_committed(self) -> str | None:
        return None if self.history.count(Outcome.COMMITTED) else f"{self.history.count(Outcome.FAILED)} have failed"

    def _busy_client(self, prefixes: tuple[str, ...]) -> str | None:
        return next((one.name for one in self.clients if one.name.startswith(prefixes) and not one.is_done), None)

    def _uncopied(self, ends: Mapping[TopicPartition, int]) -> str | None:
        """`ends` is where the last record to copy ends, in each partition of the input that has one."""
        for one, end in ends.items():
            committed = self.agreement.committed(workload.GROUP, one)
            if committed < end:
                return f"{one}: {committed} of {end}"
        return None

    def _check(self) -> None:
        self.agreement.check()
        view = self._view(self._partitions())
        self.history.check(view, plain_is_durable=True, deleted=())
        self.history.check_copies(view, workload.INPUT, workload.OUTPUT)
        self.shared.commits.check(partial(self.agreement.committed, workload.FOLLOWERS))

    def _partitions(self) -> list[TopicPartition]:
        return [TopicPartition(name, index) for name, count in PARTITIONS.items() for index in range(count)]

    def _view(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, list[tuple[int, bytes]]]:
        view: dict[TopicPartition, list[ConsumedRecord]] = {}
        judge = self._client("judge", lambda node: workload.read_all(node, partitions, view))
        self.driver.finish("reading everything", judge, READY_MS)
        return {one: [(record.offset, record.value or b"") for record in records] for one, records in view.items()}

    def _broker(self, broker_id: int, settings: Mapping[str, str]) -> MemberNode:
        disk = SimulatedDisk(stream(self.seed, f"disk {broker_id}"), lambda: int(self.queue.now_ms))
        disk.lose_by(stream(self.seed, f"power {broker_id}"))
        random = stream(self.seed, f"broker {broker_id}")
        return MemberNode(
            broker_id, self.queue, self.network, self.ensemble, disk, random, settings, self.driver.failed
        )

    def _clients(self, draw: Random) -> list[ClientNode]:
        plays: dict[str, Callable[[ClientNode], Play]] = {}
        shared = self.shared
        for number in range(draw.randrange(1, 4)):
            plays[f"writer-{number}"] = self._writer(f"id-{number}")
        if draw.random() < 0.5:
            plays["writer-zombie"] = self._writer("id-0")
        for number in range(draw.randrange(1, 3)):
            plays[f"plain-{number}"] = lambda node: workload.write_plain(node, shared)
        for number in range(draw.randrange(1, 4)):
            plays[f"copier-{number}"] = lambda node: workload.copy(node, shared, PROTOCOL)
        if draw.random() < 0.5:
            plays["follower"] = lambda node: workload.follow(node, shared, PROTOCOL)
        for level in draw.choice((list(IsolationLevel), [IsolationLevel.READ_COMMITTED])):
            plays[f"reader-{level.name}"] = partial(workload.read, shared=shared, isolation_level=level)
        return [self._client(name, play) for name, play in plays.items()]

    def _writer(self, transactional_id: str) -> Callable[[ClientNode], Play]:
        return lambda node: workload.write_in_transactions(node, self.shared, transactional_id)

    def _client(self, name: str, play: Callable[[ClientNode], Play]) -> ClientNode:
        random = stream(self.seed, f"client {name}")
        settings = ClientSettings(
            tuple(broker.address for broker in self.brokers),
            client_id=name,
            request_timeout_ms=random.choice((1_000, 5_000, 30_000)),
            connect_timeout_ms=random.choice((500, 3_000)),
            call_timeout_ms=random.choice((5_000, 10_000, 30_000)),
        )
        return ClientNode(name, self.queue, self.network, settings, random, play, self.driver.failed, self.history.died)

    def _happened(self, event: Event) -> None:
        self.states.look()
        if event.process is not None:
            broker = self._broker_of.get(event.process.node)
            if broker is not None:
                self.ledger.look_at(broker)

    def _report(self, failure: str | None) -> Report:
        history = self.history
        return Report(
            self.seed,
            self.minutes,
            failure,
            self.queue.trace,
            self.queue.count,
            self.queue.now_ms,
            history.count(Outcome.COMMITTED),
            history.count(Outcome.FAILED),
            history.count(Outcome.UNKNOWN),
            sum(broker.starts for broker in self.brokers),
            sum(len(sighting.seen) for sighting in history.sightings),
            self.injection.happened,
            tuple(self.faults),
        )
