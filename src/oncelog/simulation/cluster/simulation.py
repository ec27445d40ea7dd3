"""One run of a cluster: a seed, brokers over a ZooKeeper, clients, faults; then no faults, and everything is checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from oncelog.client.values import TopicPartition
from oncelog.simulation import workload
from oncelog.simulation.cluster.agreement import Agreement
from oncelog.simulation.cluster.conditions import SIZES, member_settings, replicated_topics
from oncelog.simulation.cluster.faults import plan_cluster
from oncelog.simulation.cluster.injection import ClusterInjection
from oncelog.simulation.cluster.ledger import Ledger
from oncelog.simulation.cluster.member_node import MemberNode
from oncelog.simulation.cluster.metadata import ClusterMetadata, WrittenStates
from oncelog.simulation.cluster.zookeeper import SimulatedEnsemble
from oncelog.simulation.disk import SimulatedDisk
from oncelog.simulation.events import Event, EventQueue, stream
from oncelog.simulation.expectations import GivenProducerIds
from oncelog.simulation.history import Outcome, PlainCommits, RunHistory
from oncelog.simulation.keyed import KeyedHistory
from oncelog.simulation.network import Network
from oncelog.simulation.population import Population, busy_client, ends_of, uncopied
from oncelog.simulation.report import MINUTE_MS, Driver, Report, failure_of, report_of
from oncelog.simulation.short_lived import ShortLivedHistory
from oncelog.simulation.workload import PARTITIONS

READY_MS = MINUTE_MS
PACES = (0.97, 1.03)
"""No two clocks go equally fast: what is over by one of them is not yet by another."""
LIVENESS_MS = 4 * MINUTE_MS
"""The operating system gives up a silent connection after two of them, and a transaction lasts one."""
CALM_MS = (500.0, 5_000.0)
CALL_TIMEOUTS_MS = (5_000, 10_000, 30_000)
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
        self._population = Population(
            seed,
            self.queue,
            self.network,
            self.driver,
            self.shared,
            [broker.address for broker in self.brokers],
            CALL_TIMEOUTS_MS,
        )
        plays = self._population.plays(draw, plain_min=1, protocol=lambda: PROTOCOL, followed=0.5)
        self.clients = self._population.all_of(plays)
        self.metadata = ClusterMetadata(self.ensemble)
        self.states = WrittenStates(self.metadata)
        self.ledger = Ledger(self.brokers, self.metadata)
        self.producer_ids = GivenProducerIds()
        self.agreement = Agreement(self.brokers, self.metadata, self.ledger)
        self.injection = ClusterInjection(
            self.queue, self.network, self.ensemble, self.brokers, self.clients, self.metadata
        )
        self.faults = plan_cluster(seed, minutes * MINUTE_MS, left_out)

    def run(self) -> Report:
        """Raises nothing: what fails is in the report."""
        failure = failure_of(self.seed, self._play)
        starts, happened = sum(broker.starts for broker in self.brokers), self.injection.happened
        return report_of(self.seed, self.minutes, failure, self.queue, self.history, starts, happened, self.faults)

    def _play(self) -> None:
        for broker in self.brokers:
            self.queue.after(self._draw.uniform(0, 500), f"{broker.name} start", broker.start)
        self.driver.advance(self.queue.now_ms + 500)
        self.driver.until_done("the brokers do not assemble", self.agreement.unassembled, READY_MS)
        maker = self._population.client("maker", lambda node: workload.make_topics(node, self._topics))
        self.driver.finish("making the topics", maker, READY_MS)
        self.injection.schedule(self.faults)
        for client in self.clients:
            self.queue.after(self._draw.uniform(0, 500), f"{client.name} start", client.start)
        self.driver.advance(self.queue.now_ms + self.minutes * MINUTE_MS)
        self.injection.end()
        self._complete()
        self._check()

    def _complete(self) -> None:
        """Without faults, everything comes to its end in time."""
        until_done = partial(self.driver.until_done, within_ms=LIVENESS_MS)
        until_done("partitions are not led and in sync", self.agreement.unled)
        self.driver.advance(self.queue.now_ms + self._draw.uniform(*CALM_MS))
        until_done("nobody commits anything", self._nothing_committed)
        self.shared.stop_writing()
        until_done("the writers do not end", lambda: busy_client(self.clients, WRITERS))
        until_done("transactions do not end", self.agreement.incomplete)
        inputs = [one for one in self._partitions() if one.topic == workload.INPUT]
        ends = ends_of(self._population.read_all(inputs, READY_MS))
        until_done("what is written is not copied", lambda: uncopied(ends, self.agreement.committed))
        self.shared.is_over = True
        until_done("the clients do not end", lambda: busy_client(self.clients))
        until_done("transactions do not end", self.agreement.incomplete)

    def _nothing_committed(self) -> str | None:
        return None if self.history.count(Outcome.COMMITTED) else f"{self.history.count(Outcome.FAILED)} have failed"

    def _check(self) -> None:
        self.agreement.check()
        records = self._population.read_all(self._partitions(), READY_MS)
        view = {one: [(record.offset, record.value or b"") for record in found] for one, found in records.items()}
        self.history.check(view, plain_is_durable=True, deleted=())
        self.history.check_copies(view, workload.INPUT, workload.OUTPUT)
        self.shared.commits.check(partial(self.agreement.committed, workload.FOLLOWERS))

    def _partitions(self) -> list[TopicPartition]:
        return [TopicPartition(name, index) for name, count in PARTITIONS.items() for index in range(count)]

    def _broker(self, broker_id: int, settings: Mapping[str, str]) -> MemberNode:
        disk = SimulatedDisk(stream(self.seed, f"disk {broker_id}"), lambda: int(self.queue.now_ms))
        disk.lose_by(stream(self.seed, f"power {broker_id}"))
        random = stream(self.seed, f"broker {broker_id}")
        node = MemberNode(
            broker_id, self.queue, self.network, self.ensemble, disk, random, settings, self.driver.failed
        )
        node.pace = stream(self.seed, f"clock {broker_id}").uniform(*PACES)
        return node

    def _happened(self, event: Event) -> None:
        self.states.look()
        if event.process is not None:
            broker = self._broker_of.get(event.process.node)
            if broker is not None:
                self.ledger.look_at(broker)
                if broker.core is not None and broker.is_up:
                    self.producer_ids.look_at(broker.core)
