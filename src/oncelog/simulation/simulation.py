"""One run: a seed, a broker, clients and faults. Then the faults end, all clients finish, and the history is checked."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from random import Random
from uuid import UUID

from oncelog.client.consumer.core import ConsumedRecord
from oncelog.client.values import TopicPartition
from oncelog.simulation import administration, workload
from oncelog.simulation.broker_node import BrokerNode
from oncelog.simulation.clients import ClientNode
from oncelog.simulation.conditions import broker_settings, transaction_version
from oncelog.simulation.disk import SimulatedDisk
from oncelog.simulation.events import Event, EventQueue, stream
from oncelog.simulation.expectations import TransactionDeadlines
from oncelog.simulation.faults import plan
from oncelog.simulation.history import PlainCommits, RunHistory, View
from oncelog.simulation.injection import Injection
from oncelog.simulation.invariants import Invariants
from oncelog.simulation.keyed import KEYED, KeyedHistory
from oncelog.simulation.network import Network
from oncelog.simulation.population import Plays, Population, busy_client, ends_of, uncopied
from oncelog.simulation.report import MINUTE_MS, Driver, Report, failure_of, report_of
from oncelog.simulation.short_lived import REBORN, SHORT_LIVED, ShortLivedHistory
from oncelog.simulation.transport import Play

CALM_MS = (1_000.0, 10_000.0)
CALL_TIMEOUTS_MS = (2_500, 10_000, 30_000)
LEFT_TIMEOUTS_MS = (3_000, 15_000)
WRITERS = ("writer", "plain", "admin")


class Simulation:
    def __init__(self, seed: int, minutes: float, left_out: Collection[int] = ()) -> None:
        self.seed = seed
        self.minutes = minutes
        self.queue = EventQueue()
        self.network = Network(self.queue, stream(seed, "network"))
        self.history = RunHistory()
        self._draw = draw = stream(seed, "settings")
        self._plain_is_durable = draw.random() < 0.5
        self._transaction_version = transaction_version(stream(seed, "generation"))
        self._topics = workload.topics(draw, plain_is_durable=self._plain_is_durable)
        self.keyed = KeyedHistory(self._plain_is_durable)
        self.short_lived = ShortLivedHistory()
        self.topic_settings = administration.DrawnSettings()
        self.shared = workload.Shared(
            self.history,
            self.keyed,
            self.short_lived,
            PlainCommits(lambda: self.broker.power_cuts),
            workload.written_topics(self._topics),
            self._topic_id,
        )
        self.view: View = {}
        """The records that read_committed shows in the end."""
        self.driver = Driver(self.queue, self._happened, lambda _: self.injection.broker_ended_in_step())
        self.disk = SimulatedDisk(stream(seed, "disk"), lambda: int(self.queue.now_ms))
        self.disk.lose_by(stream(seed, "power"))
        self.broker = BrokerNode(
            "broker",
            self.queue,
            self.network,
            self.disk,
            stream(seed, "broker"),
            broker_settings(draw),
            draw.choice((["/data"], ["/data", "/more"])),
            self.driver.failed,
        )
        self._population = Population(
            seed, self.queue, self.network, self.driver, self.shared, [self.broker.address], CALL_TIMEOUTS_MS
        )
        self.clients = self._population.all_of(self._plays(draw))
        self.deadlines = TransactionDeadlines(self.broker, self.queue)
        self.invariants = Invariants(self.broker, self.short_lived, self.deadlines)
        self.injection = Injection(self.queue, self.network, self.broker, self.clients, self.invariants.audit)
        self.invariants.has_flipped = lambda: self.injection.has_flipped
        self.faults = plan(seed, minutes * MINUTE_MS, left_out)

    def run(self) -> Report:
        """Raises nothing: what fails is in the report."""
        failure, starts = failure_of(self.seed, self._play), self.broker.starts
        happened = self.injection.happened
        return report_of(self.seed, self.minutes, failure, self.queue, self.history, starts, happened, self.faults)

    def _play(self) -> None:
        self.broker.start()
        self.driver.finish("the topics", self._population.client("maker", self._make_ready), 2 * MINUTE_MS)
        self.injection.schedule(self.faults)
        for client in self.clients:
            self.queue.after(self._draw.uniform(0, 500), f"{client.name} start", client.start)
        self.driver.advance(self.queue.now_ms + self.minutes * MINUTE_MS)
        self.injection.end()
        self.deadlines.healed()
        self._finish()
        self._check()

    def _finish(self) -> None:
        """Without faults, everything comes to its end in time."""
        self.driver.advance(self.queue.now_ms + self._draw.uniform(*CALM_MS))
        self._leave_transaction(stream(self.seed, "who leaves"))
        self.shared.stop_writing()
        self.driver.until_done("the writers do not end", lambda: busy_client(self.clients, WRITERS))
        self.driver.until_done("transactions do not end", self.invariants.in_progress)
        view = self._view([one for one in self._partitions() if one.topic == workload.INPUT])
        ends = ends_of(view)
        self.driver.until_done("what is written is not copied", lambda: uncopied(ends, self._committed))
        self.shared.is_over = True
        self.driver.until_done("the clients do not end", lambda: busy_client(self.clients))
        self.driver.until_done("transactions do not end", self.invariants.in_progress)
        self.invariants.audit()
        self.invariants.audit_idle()

    def _leave_transaction(self, random: Random) -> None:
        """In half of the runs a client leaves for good, and its transaction is open: time alone ends it, maybe after a start."""
        if random.random() < 0.5:
            return
        timeout_ms = random.choice(LEFT_TIMEOUTS_MS)
        leaver = self._population.client("leaver", lambda node: workload.leave_open(node, self.shared, timeout_ms))
        self.driver.finish("opening a transaction", leaver, 2 * MINUTE_MS)
        leaver.kill()
        if random.random() < 0.5:
            self.broker.die(power=False)
            self.broker.start()

    def _committed(self, group: str, partition: TopicPartition) -> int:
        """-1 where the group has committed nothing."""
        core = self.broker.core
        assert core is not None
        offsets = core.offsets.coordinator.offsets_of(group, require_stable=False).committed
        stored = offsets.get((partition.topic, partition.partition))
        return -1 if stored is None else stored.committed.offset

    def _check(self) -> None:
        starts = self._starts()
        records = self._view(self._partitions())
        view = {one: [(r.offset, r.value or b"") for r in found] for one, found in records.items()}
        keyed = {one: found for one, found in records.items() if one.topic == KEYED}
        lasting = self.view = {one: found for one, found in view.items() if one not in keyed}
        self.history.check(lasting, plain_is_durable=self._plain_is_durable, deleted=SHORT_LIVED)
        self.history.check_copies(view, workload.INPUT, workload.OUTPUT)
        self.keyed.check(keyed)
        self.shared.commits.check(partial(self._committed, workload.FOLLOWERS))
        ids = {name: topic_id for name in SHORT_LIVED if (topic_id := self._topic_id(name)) is not None}
        after = self._starts()
        self.short_lived.check(view, {one: (start, after[one]) for one, start in starts.items()}, ids)
        found = self.broker.topic(workload.INPUT)
        assert found is not None
        self.topic_settings.check(found.configs)

    def _topic_id(self, name: str) -> UUID | None:
        found = self.broker.topic(name)
        return None if found is None else found.topic_id

    def _partitions(self) -> list[TopicPartition]:
        """All that the judge reads. An administrator may make a topic that a run does not begin with."""
        counts = {REBORN: 1} | {topic.name: topic.partitions for topic in self._topics}
        there = [name for name in counts if self._topic_id(name) is not None]
        return [TopicPartition(name, index) for name in there for index in range(counts[name])]

    def _starts(self) -> dict[TopicPartition, int]:
        """The log start offsets of partitions whose records are deleted."""
        core = self.broker.core
        assert core is not None
        found = {one: core.topics.partition(*one) for one in self._partitions() if one.topic in SHORT_LIVED}
        return {one: partition.log.log_start_offset for one, partition in found.items() if partition is not None}

    def _view(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, list[ConsumedRecord]]:
        return self._population.read_all(partitions, 2 * MINUTE_MS)

    def _make_ready(self, node: ClientNode) -> Play:
        return workload.make_ready(node, self._topics, self._transaction_version)

    def _plays(self, draw: Random) -> Plays:
        plays = self._population.plays(
            draw, plain_min=0, protocol=lambda: draw.choice(("classic", "consumer")), followed=0.4
        )
        if draw.random() < 0.8:
            plays["admin"] = lambda node: self._administrator(node).play()
            if draw.random() < 0.5:
                plays["admin-too"] = lambda node: self._administrator(node).play()
        return plays

    def _administrator(self, node: ClientNode) -> administration.Administrator:
        told = self.injection.administrator_was_told
        return administration.Administrator(node, self.shared, self.topic_settings, told)

    def _happened(self, event: Event) -> None:
        if event.process is self.broker.process:
            self.invariants.check()
