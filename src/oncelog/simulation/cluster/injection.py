"""Carries out the faults of a run of a cluster, and takes them back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from random import Random

from oncelog.broker import slices
from oncelog.client import requests
from oncelog.cluster.zookeeper.znodes import paths
from oncelog.simulation.clients import ClientNode
from oncelog.simulation.cluster.faults import ClusterFault
from oncelog.simulation.cluster.member_node import MemberNode
from oncelog.simulation.cluster.metadata import ClusterMetadata
from oncelog.simulation.cluster.zookeeper import ENSEMBLE, SimulatedEnsemble
from oncelog.simulation.events import EventQueue
from oncelog.simulation.faults import PlannedFault
from oncelog.simulation.network import Network, StreamEnd

DOWN_MS = (10.0, 12_000.0)
FOR_A_MOMENT_MS = (1.0, 400.0)
PARTED_EXPONENT = (2.5, 4.2)
"""Exponents of ten: the duration of a partition of the network, in ms."""
OPERATIONS_MAX = 60
LOOKED_AGAIN_AFTER_MS = 500.0
HANDED_OVER_WITHIN_MS = 5_000.0
FETCH = 1
ANSWERS = tuple(
    api.key for api in (requests.PRODUCE, requests.END_TXN, requests.INIT_PRODUCER_ID, requests.TXN_OFFSET_COMMIT)
)


class ClusterInjection:
    """Injects faults. One broker at a time has lost power: more could lose acknowledged records."""

    def __init__(
        self,
        queue: EventQueue,
        network: Network,
        ensemble: SimulatedEnsemble,
        brokers: Sequence[MemberNode],
        clients: Sequence[ClientNode],
        metadata: ClusterMetadata,
    ) -> None:
        self.happened: Counter[Enum] = Counter()
        self._queue = queue
        self._network = network
        self._ensemble = ensemble
        self._brokers = brokers
        self._clients = clients
        self._metadata = metadata
        self._is_over = False
        self._slice_ms = slices.SLICE_MS
        self._carry_out: dict[Enum, Callable[[Random], None]] = {
            ClusterFault.KILL: lambda random: self._kill(self._any(random), random),
            ClusterFault.KILL_IN_STEP: self._kill_in_step,
            ClusterFault.KILL_CONTROLLER: self._kill_controller,
            ClusterFault.KILL_LEADER: self._kill_leader,
            ClusterFault.KILL_ALL: self._kill_all,
            ClusterFault.KILL_FOR_A_MOMENT: lambda random: self._kill(self._any(random), random, FOR_A_MOMENT_MS),
            ClusterFault.POWER: self._power,
            ClusterFault.LOST_DISK: lambda random: self._power(random, with_disk=True),
            ClusterFault.STOP: self._stop,
            ClusterFault.PAUSE: lambda random: self._pause(self._any(random), random),
            ClusterFault.BUSY: self._busy,
            ClusterFault.SLOW_DISK: self._slow_disk,
            ClusterFault.CLOCK: self._clock,
            ClusterFault.PART: self._part,
            ClusterFault.PART_ONE_WAY: self._part_one_way,
            ClusterFault.ISOLATE: self._isolate,
            ClusterFault.ISOLATE_LEADER: self._isolate_leader,
            ClusterFault.NO_ZOOKEEPER: self._no_zookeeper,
            ClusterFault.NO_QUORUM: lambda random: ensemble.stop(self._parted_until_ms(random)),
            ClusterFault.EXPIRE: self._expire,
            ClusterFault.CONTROLLER_DELETED: self._delete_controller,
            ClusterFault.CLIENT_KILL: self._client_kill,
            ClusterFault.CLIENT_PAUSE: lambda random: self._pause(random.choice(clients), random),
            ClusterFault.CLIENT_PART: self._client_part,
            ClusterFault.CUT: self._cut,
            ClusterFault.LOST_ANSWER: self._lost_answer,
            ClusterFault.VANISH: self._vanish,
            ClusterFault.HELD: self._held,
            ClusterFault.LATENCY: self._latency,
        }

    def schedule(self, faults: Sequence[PlannedFault]) -> None:
        for fault in faults:
            self._queue.at(self._queue.now_ms + fault.at_ms, f"fault {fault}", partial(self._happen, fault))

    def end(self) -> None:
        """No faults from now on, and every broker is up, or comes up."""
        self._is_over = True
        self._network.heal()
        self._ensemble.heal()
        self._free()
        for broker in self._brokers:
            broker.watchers.clear()
            broker.disk.slow_until_ms = 0.0
            broker.disk.operations_left = None
            broker.process.paused_until_ms = 0.0
            self._start(broker)

    def broker_ended_in_step(self, name: str) -> None:
        """Its disk has ended it."""
        (ended,) = (one for one in self._brokers if one.name == name)
        ended.die(power=False)
        self._start_later(ended, Random(self._queue.count))

    def _happen(self, fault: PlannedFault) -> None:
        if not self._is_over:
            self.happened[fault.kind] += 1
            self._carry_out[fault.kind](Random(fault.draw))

    def _any(self, random: Random) -> MemberNode:
        return random.choice(self._brokers)

    def _two(self, random: Random) -> tuple[MemberNode, MemberNode]:
        one, other = random.sample(self._brokers, 2)
        return one, other

    def _parted_until_ms(self, random: Random) -> float:
        return self._queue.now_ms + 10 ** random.uniform(*PARTED_EXPONENT)

    def _start_later(self, broker: MemberNode, random: Random, down_ms: tuple[float, float] = DOWN_MS) -> None:
        self._queue.after(random.uniform(*down_ms), f"{broker.name} start", partial(self._start, broker))

    def _start(self, broker: MemberNode) -> None:
        """Starts a broker again. After a loss it starts only once it has left the in-sync set.

        If the other replicas left before it, it alone may lead, and the cluster has only its records.
        """
        metadata, broker_id = self._metadata, broker.broker_id
        if broker.is_to_be_left_out and metadata.is_alone_in_sync_anywhere(broker_id):
            broker.lose_nothing()
        if broker.is_to_be_left_out and metadata.is_in_sync_anywhere(broker_id):
            self._queue.after(LOOKED_AGAIN_AFTER_MS, f"{broker.name} start", partial(self._start, broker))
        else:
            broker.start()

    def _kill(self, broker: MemberNode, random: Random, down_ms: tuple[float, float] = DOWN_MS) -> None:
        if broker.is_up:
            broker.die(power=False)
            self._start_later(broker, random, down_ms)

    def _kill_in_step(self, random: Random) -> None:
        broker = self._any(random)
        if broker.is_up:
            broker.disk.operations_left = random.randrange(OPERATIONS_MAX)

    def _kill_controller(self, random: Random) -> None:
        controller_id = self._metadata.controller_id()
        for broker in self._brokers:
            if broker.broker_id == controller_id:
                self._kill(broker, random)

    def _kill_leader(self, random: Random) -> None:
        down_ms = random.choice((DOWN_MS, FOR_A_MOMENT_MS))

        def kill(broker: MemberNode, _: StreamEnd) -> None:
            self._queue.after(random.uniform(0, 3), "kill", lambda: self._kill(broker, random, down_ms))

        self._when_answered(random.choice(ANSWERS), kill)

    def _when_answered(self, api_key: int, carry_out: Callable[[MemberNode, StreamEnd], None]) -> None:
        """Once: at the next answer of this kind, of whichever broker."""
        is_over = False

        def watch(broker: MemberNode) -> None:
            def answered(answered_key: int, end: StreamEnd) -> None:
                nonlocal is_over
                if is_over or answered_key == api_key:
                    broker.watchers.remove(answered)
                if not is_over and answered_key == api_key:
                    is_over = True
                    carry_out(broker, end)

            broker.watchers.append(answered)

        for broker in self._brokers:
            watch(broker)

    def _kill_all(self, random: Random) -> None:
        for broker in self._brokers:
            self._queue.after(random.uniform(0, 5), "kill", partial(self._kill, broker, random))

    def _power(self, random: Random, *, with_disk: bool = False) -> None:
        """Only where every other replica has what is lost here: the cluster promises no more."""
        broker = self._any(random)
        if not self._metadata.is_whole():
            return
        for one in self._brokers:
            one.has_lost_power &= one.is_to_be_left_out
        if broker.is_up and not any(one.has_lost_power for one in self._brokers):
            broker.die(power=True)
            broker.has_lost_disk = with_disk
            self._start_later(broker, random)

    def _stop(self, random: Random) -> None:
        broker = self._any(random)
        core, process = broker.served, broker.process
        if core is None:
            return
        handed_over = core.hand_over()

        def stop() -> None:
            # A broker that announced its stop does stop, even after the last fault: the controller has moved its leaders.
            if broker.process is process and process.is_alive:
                broker.stop()
                self._start_later(broker, random)

        def stop_soon(_: object) -> None:
            process.after(0, "stop", stop)

        handed_over.then(stop_soon)
        process.after(HANDED_OVER_WITHIN_MS, "stop", stop)

    def _pause(self, node: MemberNode | ClientNode, random: Random) -> None:
        node.process.paused_until_ms = self._queue.now_ms + 10 ** random.uniform(1, 4.2)

    def _busy(self, random: Random) -> None:
        broker = self._any(random)
        broker.is_busy = broker.disk.are_threads_late = True
        slices.SLICE_MS = 0
        self._queue.after(random.uniform(500, 8_000), "free", self._free)

    def _free(self) -> None:
        for broker in self._brokers:
            broker.is_busy = broker.disk.are_threads_late = False
        slices.SLICE_MS = self._slice_ms

    def _slow_disk(self, random: Random) -> None:
        self._any(random).disk.slow_until_ms = self._queue.now_ms + random.uniform(500, 15_000)

    def _clock(self, random: Random) -> None:
        self._any(random).jump_ms = random.uniform(-1, 1) * 10 ** random.uniform(1, 5)

    def _part(self, random: Random) -> None:
        one, other = self._two(random)
        self._network.part(one.name, other.name, self._parted_until_ms(random))

    def _part_one_way(self, random: Random) -> None:
        one, other = self._two(random)
        self._network.part_one_way(one.name, other.name, self._parted_until_ms(random))

    def _isolate(self, random: Random) -> None:
        self._part_from_others(self._any(random), self._parted_until_ms(random))

    def _part_from_others(self, broker: MemberNode, until_ms: float) -> None:
        for other in self._brokers:
            if other is not broker:
                self._network.part(broker.name, other.name, until_ms)

    def _isolate_leader(self, random: Random) -> None:
        broker, until_ms = self._any(random), self._parted_until_ms(random)
        self._part_from_others(broker, until_ms)
        self._ensemble.cut_off(broker.name, until_ms, silently=True)

    def _no_zookeeper(self, random: Random) -> None:
        is_silent = random.random() < 0.5
        self._ensemble.cut_off(self._any(random).name, self._parted_until_ms(random), silently=is_silent)

    def _expire(self, random: Random) -> None:
        if self._ensemble.session_ids:
            self._ensemble.expire(random.choice(self._ensemble.session_ids))

    def _delete_controller(self, random: Random) -> None:
        """As somebody does who wants another one; mostly when it has elections to make, and the old one hears of it late."""
        if random.random() < 0.8:
            self._expire(random)
        late_ms = 10 ** random.uniform(0, 2.8)

        def delete() -> None:
            controller_id = self._metadata.controller_id()
            if controller_id >= 0 and not self._is_over:
                node = self._brokers[controller_id].name
                self._network.part_one_way(ENSEMBLE, node, self._queue.now_ms + late_ms)
                self._ensemble.delete(paths.CONTROLLER)

        self._queue.after(random.uniform(0, 10), "delete the controller", delete)

    def _client_kill(self, random: Random) -> None:
        client = random.choice(self._clients)
        if client.process.is_alive and not client.is_done:
            client.kill()
            self._queue.after(random.uniform(*DOWN_MS), f"{client.name} start", client.start)

    def _client_part(self, random: Random) -> None:
        client, broker = random.choice(self._clients), self._any(random)
        self._network.part(client.name, broker.name, self._parted_until_ms(random))

    def _end_of(self, random: Random) -> StreamEnd | None:
        ends = self._network.ends_of(self._any(random).name)
        return random.choice(ends) if ends else None

    def _cut(self, random: Random) -> None:
        end = self._end_of(random)
        if end is not None:
            for one in (end, end.other):
                one.process.after(0, "cut", partial(one.cut, random.randrange(one.in_flight_bytes + 1)))

    def _lost_answer(self, random: Random) -> None:
        """Loses the answer to a request that was carried out, of a client or a follower."""

        def lose(_: MemberNode, end: StreamEnd) -> None:
            for one in (end, end.other):
                one.process.after(0, "cut", partial(one.cut, 0))

        self._when_answered(random.choice((*ANSWERS, FETCH)), lose)

    def _vanish(self, random: Random) -> None:
        end = self._end_of(random)
        if end is not None:
            end.vanish()

    def _held(self, random: Random) -> None:
        end = self._end_of(random)
        if end is not None:
            end.hold_back(self._queue.now_ms + 10 ** random.uniform(2.5, 4.2))

    def _latency(self, random: Random) -> None:
        self._network.spike_share = random.uniform(0.01, 0.3)
        self._queue.after(random.uniform(1_000, 20_000), "latency", lambda: setattr(self._network, "spike_share", 0.0))
