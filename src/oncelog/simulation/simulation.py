"""One run: a seed, a broker, clients, faults; then no faults and everything comes to an end; then the history is checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from random import Random
from uuid import UUID

from oncelog.client.consumer.core import ConsumedRecord
from oncelog.client.net.settings import ClientSettings
from oncelog.client.values import IsolationLevel, TopicPartition
from oncelog.simulation import administration, workload
from oncelog.simulation.broker_node import BrokerNode
from oncelog.simulation.clients import ClientNode
from oncelog.simulation.conditions import broker_settings, few_collections, hidden_paths_open, transaction_version
from oncelog.simulation.disk import SimulatedDisk
from oncelog.simulation.driving import MINUTE_MS, Driver, described
from oncelog.simulation.events import Event, EventQueue, stream
from oncelog.simulation.faults import PlannedFault, plan
from oncelog.simulation.history import Outcome, RunHistory, View
from oncelog.simulation.injection import Injection
from oncelog.simulation.invariants import Invariants
from oncelog.simulation.keyed import KEYED, KeyedHistory
from oncelog.simulation.network import Network
from oncelog.simulation.plain_commits import PlainCommits
from oncelog.simulation.short_lived import REBORN, SHORT_LIVED, ShortLivedHistory
from oncelog.simulation.transport import Play

CALM_MS = (1_000.0, 10_000.0)


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a run. `failure` is None where everything held."""

    seed: int
    minutes: float
    failure: str | None
    trace: str
    events: int
    simulated_ms: float
    committed: int
    aborted: int
    unknown: int
    starts: int
    records_seen: int
    happened: Mapping[Enum, int]
    planned: tuple[PlannedFault, ...] = field(repr=False)


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
        """What read_committed shows in the end."""
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
        self.clients = self._clients(draw)
        self.invariants = Invariants(self.broker, self.short_lived)
        self.injection = Injection(self.queue, self.network, self.broker, self.clients, self.invariants.audit)
        self.invariants.has_flipped = lambda: self.injection.has_flipped
        self.faults = plan(seed, minutes * MINUTE_MS, left_out)

    def run(self) -> Report:
        """Raises nothing: what fails is in the report."""
        failure: str | None = None
        with few_collections(), hidden_paths_open(stream(self.seed, "constants")):
            try:
                self._play()
            except Exception as error:  # noqa: BLE001 - a bug of the broker comes out here
                failure = described(error)
        return self._report(failure)

    def _play(self) -> None:
        self.broker.start()
        self.driver.finish("the topics", self._client("maker", self._make_ready), 2 * MINUTE_MS)
        self.injection.schedule(self.faults)
        for client in self.clients:
            self.queue.after(self._draw.uniform(0, 500), f"{client.name} start", client.start)
        self.driver.advance(self.queue.now_ms + self.minutes * MINUTE_MS)
        self.injection.end()
        self._settle()
        self._check()

    def _settle(self) -> None:
        """Without faults, everything comes to its end in time."""
        self.driver.advance(self.queue.now_ms + self._draw.uniform(*CALM_MS))
        self.shared.stop_writing()
        writers = [client for client in self.clients if client.name.startswith(("writer", "plain", "admin"))]
        self.driver.until_settled(
            "the writers do not end", lambda: next((c.name for c in writers if not c.is_done), None)
        )
        self.driver.until_settled("transactions do not end", self.invariants.unsettled)
        view = self._view([one for one in self._partitions() if one.topic == workload.INPUT])
        ends = {one.partition: records[-1].offset + 1 for one, records in view.items() if records}
        self.driver.until_settled("what is written is not copied", lambda: self._uncopied(ends))
        self.shared.is_over = True
        self.driver.until_settled(
            "the clients do not end", lambda: next((c.name for c in self.clients if not c.is_done), None)
        )
        self.driver.until_settled("transactions do not end", self.invariants.unsettled)
        self.invariants.audit()
        self.invariants.audit_settled()

    def _uncopied(self, ends: Mapping[int, int]) -> str | None:
        """`ends` is where the last record to copy ends, in each partition of the input that has one."""
        for index, end in ends.items():
            committed = self._committed(workload.GROUP, TopicPartition(workload.INPUT, index))
            if committed < end:
                return f"{workload.INPUT}-{index}: {committed} of {end}"
        return None

    def _committed(self, group: str, partition: TopicPartition) -> int:
        """-1 where the group has committed nothing."""
        core = self.broker.core
        assert core is not None
        offsets = core.offsets.coordinator.committed_offsets(group, False)
        stored = (offsets or {}).get((partition.topic, partition.partition))
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
        """Where the partitions begin whose records go."""
        core = self.broker.core
        assert core is not None
        found = {one: core.topics.partition(*one) for one in self._partitions() if one.topic in SHORT_LIVED}
        return {one: partition.log.log_start_offset for one, partition in found.items() if partition is not None}

    def _view(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, list[ConsumedRecord]]:
        view: dict[TopicPartition, list[ConsumedRecord]] = {}
        client = self._client("judge", lambda node: workload.read_all(node, partitions, view))
        self.driver.finish("reading everything", client, 2 * MINUTE_MS)
        return view

    def _make_ready(self, node: ClientNode) -> Play:
        return workload.make_ready(node, self._topics, self._transaction_version)

    def _clients(self, draw: Random) -> list[ClientNode]:
        plays: dict[str, Callable[[ClientNode], Play]] = {}
        shared = self.shared
        for number in range(draw.randrange(1, 4)):
            plays[f"writer-{number}"] = self._writer(f"id-{number}")
        if draw.random() < 0.5:
            plays["writer-zombie"] = self._writer("id-0")
        for number in range(draw.randrange(0, 3)):
            plays[f"plain-{number}"] = lambda node: workload.write_plain(node, shared)
        protocol = draw.choice(("classic", "consumer"))
        for number in range(draw.randrange(1, 4)):
            plays[f"copier-{number}"] = lambda node: workload.copy(node, shared, protocol)
        if draw.random() < 0.4:
            plays["follower"] = lambda node: workload.follow(node, shared, protocol)
        for level in draw.choice((list(IsolationLevel), [IsolationLevel.READ_COMMITTED])):
            plays[f"reader-{level.name}"] = partial(workload.read, shared=shared, isolation_level=level)
        if draw.random() < 0.8:
            plays["admin"] = lambda node: self._administrator(node).play()
            if draw.random() < 0.5:
                plays["admin-too"] = lambda node: self._administrator(node).play()
        return [self._client(name, play) for name, play in plays.items()]

    def _administrator(self, node: ClientNode) -> administration.Administrator:
        told = self.injection.administrator_was_told
        return administration.Administrator(node, self.shared, self.topic_settings, told)

    def _writer(self, transactional_id: str) -> Callable[[ClientNode], Play]:
        return lambda node: workload.write_in_transactions(node, self.shared, transactional_id)

    def _client(self, name: str, play: Callable[[ClientNode], Play]) -> ClientNode:
        random = stream(self.seed, f"client {name}")
        settings = ClientSettings(
            (self.broker.address,),
            client_id=name,
            request_timeout_ms=random.choice((1_000, 5_000, 30_000)),
            connect_timeout_ms=random.choice((500, 3_000)),
            call_timeout_ms=random.choice((2_500, 10_000, 30_000)),
        )
        return ClientNode(name, self.queue, self.network, settings, random, play, self.driver.failed, self.history.died)

    def _happened(self, event: Event) -> None:
        if event.process is self.broker.process:
            self.invariants.check()

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
            self.broker.starts,
            sum(len(sighting.seen) for sighting in history.sightings),
            Counter(self.injection.happened),
            tuple(self.faults),
        )
