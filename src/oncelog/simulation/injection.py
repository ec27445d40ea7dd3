"""Carries out the faults of a run, and takes them back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from itertools import accumulate
from random import Random

from oncelog.broker import slices
from oncelog.client import requests
from oncelog.client.requests import Api
from oncelog.simulation.broker_node import BrokerNode
from oncelog.simulation.clients import ClientNode
from oncelog.simulation.disk import BitFlips
from oncelog.simulation.events import EventQueue
from oncelog.simulation.faults import FaultKind, PlannedFault
from oncelog.simulation.network import Network, StreamEnd

DOWN_MS = (10.0, 8_000.0)
OPERATIONS_MAX = 40
SOON_MS = (0.2, 4.0)
WATCH_MS = 8_000.0
BETWEEN_CUTS_MS = (300.0, 4_000.0)
ANSWERS = (
    requests.END_TXN,
    requests.PRODUCE,
    requests.INIT_PRODUCER_ID,
    requests.CREATE_TOPICS,
    requests.DELETE_TOPICS,
    requests.CREATE_PARTITIONS,
    requests.DELETE_RECORDS,
)
"""The answers right after which a power cut comes."""
TROUBLE = (
    FaultKind.SLOW_DISK,
    FaultKind.FAILING_DISK,
    FaultKind.FULL_DISK,
    FaultKind.BIT_FLIP,
    FaultKind.BUSY,
    FaultKind.CLOCK,
)
"""Faults with which a broker goes on."""
ENDS = (
    FaultKind.KILL,
    FaultKind.POWER,
    FaultKind.KILL_IN_STEP,
    FaultKind.POWER_IN_STEP,
    FaultKind.POWER_AFTER_ANSWER,
    FaultKind.POWER_AFTER_CHANGE,
    FaultKind.POWER_TWICE,
    FaultKind.STOP,
)
"""Faults that come just after that: each ends the broker, at once or soon."""
JUST_AFTER_MS = (0.0, 300.0)
ANSWERS_THAT_GET_LOST = (*ANSWERS, requests.PRODUCE, requests.TXN_OFFSET_COMMIT)


class Injection:
    def __init__(
        self,
        queue: EventQueue,
        network: Network,
        broker: BrokerNode,
        clients: Sequence[ClientNode],
        audit: Callable[[], None],
    ) -> None:
        """`audit` is called before a broker ends that nothing else has ended."""
        self.happened: Counter[Enum] = Counter()
        self._queue = queue
        self._network = network
        self._broker = broker
        self._clients = clients
        self._audit = audit
        self._is_over = False
        self._dies_by_power = False
        self._dies_after_change: Random | None = None
        self._flips = BitFlips(broker.disk)
        self._slice_ms = slices.SLICE_MS
        self._carry_out: dict[Enum, Callable[[Random], None]] = {
            FaultKind.KILL: lambda random: self._die(random, power=False),
            FaultKind.POWER: lambda random: self._die(random, power=True),
            FaultKind.KILL_IN_STEP: lambda random: self._die_in_step(random, power=False),
            FaultKind.POWER_IN_STEP: lambda random: self._die_in_step(random, power=True),
            FaultKind.POWER_AFTER_ANSWER: self._power_after_answer,
            FaultKind.POWER_SERIES: self._power_series,
            FaultKind.POWER_TWICE: self._power_twice,
            FaultKind.POWER_AFTER_CHANGE: self._power_after_change,
            FaultKind.TWO_AT_ONCE: self._two_at_once,
            FaultKind.JOURNAL_DAMAGE: self._journal_damage,
            FaultKind.STOP: self._stop,
            FaultKind.PAUSE: lambda random: self._pause(self._broker, random),
            FaultKind.BUSY: self._busy,
            FaultKind.SLOW_DISK: self._slow_disk,
            FaultKind.FAILING_DISK: self._failing_disk,
            FaultKind.FULL_DISK: self._full_disk,
            FaultKind.BIT_FLIP: self._bit_flip,
            FaultKind.CLOCK: self._clock,
            FaultKind.CLIENT_KILL: self._client_kill,
            FaultKind.CLIENT_PAUSE: lambda random: self._pause(random.choice(self._clients), random),
            FaultKind.CUT: self._cut,
            FaultKind.LOST_ANSWER: self._lost_answer,
            FaultKind.VANISH: self._vanish,
            FaultKind.HELD: self._held,
            FaultKind.PART: self._part,
            FaultKind.LATENCY: self._latency,
        }

    @property
    def has_flipped(self) -> bool:
        """True if a bit of the disk may differ from what was written."""
        return self._flips.have_been

    def schedule(self, faults: Sequence[PlannedFault]) -> None:
        for fault in faults:
            self._queue.at(self._queue.now_ms + fault.at_ms, f"fault {fault}", partial(self._happen, fault))

    def end(self) -> None:
        """No faults from now on, and the broker is up, or comes up."""
        self._is_over = True
        self._network.heal()
        self._broker.watchers.clear()
        disk = self._broker.disk
        disk.failing.clear()
        disk.space_bytes = None
        disk.slow_until_ms = 0.0
        disk.operations_left = None
        self._free()
        self._repair()
        self._flips.restore_journal()
        self._stop_without_directory()
        self._broker.start()

    def broker_ended_in_step(self) -> None:
        """Its disk has ended it."""
        self._broker.die(power=self._dies_by_power)
        self._start_later(Random(self._queue.count))

    def administrator_was_told(self) -> None:
        """A change was answered: it holds from now on, whatever happens."""
        random, self._dies_after_change = self._dies_after_change, None
        if random is not None and not self._is_over:
            self._die(random, power=True)

    def _happen(self, fault: PlannedFault) -> None:
        if not self._is_over:
            self.happened[fault.kind] += 1
            self._carry_out[fault.kind](Random(fault.draw))

    def _later(self, delay_ms: float, label: str, callback: Callable[[], None]) -> None:
        self._queue.after(delay_ms, label, callback)

    def _start_later(self, random: Random) -> None:
        self._later(random.uniform(*DOWN_MS), f"{self._broker.name} start", self._broker.start)

    def _die(self, random: Random, *, power: bool) -> None:
        if self._broker.is_up:
            self._audit()
            self._broker.die(power=power)
            self._start_later(random)

    def _die_in_step(self, random: Random, *, power: bool) -> None:
        if self._broker.is_up:
            self._dies_by_power = power
            self._broker.disk.operations_left = random.randrange(OPERATIONS_MAX)

    def _power_after_answer(self, random: Random) -> None:
        """Cut the power after an answer: it is on its way to the client, and all that it promises must be durable."""
        broker, disk = self._broker, self._broker.disk
        process = broker.process
        disk.slow_until_ms = self._queue.now_ms + WATCH_MS

        def cut() -> None:
            if broker.process is process and not self._is_over:
                self._die(random, power=True)
                disk.slow_until_ms = 0.0

        api = random.choice(ANSWERS)
        self._when_answered(api, lambda end: self._later(random.uniform(*SOON_MS), "power", cut))

    def _when_answered(self, api: Api, carry_out: Callable[[StreamEnd], None]) -> None:
        """Once: at the next answer of this kind, with the broker's end of its connection."""
        watchers = self._broker.watchers

        def answered(api_key: int, end: StreamEnd) -> None:
            if api_key == api.key:
                watchers.remove(answered)
                carry_out(end)

        watchers.append(answered)

    def _power_series(self, random: Random) -> None:
        """New writes come between, on what the start before has made of the log."""
        for at_ms in accumulate(random.uniform(*BETWEEN_CUTS_MS) for _ in range(random.randrange(2, 5))):
            self._later(at_ms, "power", self._power_for_a_moment)

    def _power_for_a_moment(self) -> None:
        if not self._is_over:
            self._die(Random(self._queue.count), power=True)
            self._later(1.0, f"{self._broker.name} start", self._broker.start)

    def _power_twice(self, random: Random) -> None:
        if not self._broker.is_up:
            return
        self._broker.die(power=True)

        def start() -> None:
            if not self._is_over:
                self._broker.disk.operations_left = random.randrange(OPERATIONS_MAX)
                self._dies_by_power = True
            self._broker.start()
            if not self._broker.process.is_alive:
                self._start_later(random)

        self._later(random.uniform(*DOWN_MS), f"{self._broker.name} start", start)

    def _power_after_change(self, random: Random) -> None:
        self._dies_after_change = random

    def _two_at_once(self, random: Random) -> None:
        """Neither is over when the other happens."""
        trouble, end = random.choice(TROUBLE), random.choice(ENDS)
        self._carry_out[trouble](random)

        def meanwhile() -> None:
            if not self._is_over:
                self._carry_out[end](random)

        self._later(random.uniform(*JUST_AFTER_MS), f"fault {end.name}", meanwhile)

    def _journal_damage(self, random: Random) -> None:
        """No start goes on without what the journal had: each is refused until somebody repairs it."""
        broker = self._broker
        if broker.is_up and self._flips.flip_journal(random, broker.directories[0]):
            broker.is_disk_bad = True
            broker.die(power=random.random() < 0.5)
            self._later(random.uniform(*SOON_MS), f"{broker.name} start", broker.start)
            self._later(random.uniform(500, 5_000), "journal repaired", self._flips.restore_journal)

    def _stop(self, random: Random) -> None:
        if self._broker.is_up:
            self._audit()
            self._broker.stop()
            self._start_later(random)

    def _pause(self, node: BrokerNode | ClientNode, random: Random) -> None:
        process = node.process
        process.paused_until_ms = self._queue.now_ms + 10 ** random.uniform(0, 4.3)

    def _busy(self, random: Random) -> None:
        """Everybody is served between any two steps of what takes long, and what is done beside comes late."""
        self._broker.is_busy = self._broker.disk.are_threads_late = True
        slices.SLICE_MS = 0
        self._later(random.uniform(500, 8_000), "free", self._free)

    def _free(self) -> None:
        self._broker.is_busy = self._broker.disk.are_threads_late = False
        slices.SLICE_MS = self._slice_ms

    def _slow_disk(self, random: Random) -> None:
        self._broker.disk.slow_until_ms = self._queue.now_ms + random.uniform(500, 15_000)

    def _failing_disk(self, random: Random) -> None:
        disk = self._broker.disk
        disk.failing.add(random.choice(self._broker.directories))
        self._broker.is_disk_bad = True
        self._later(random.uniform(10, 5_000), "disk works", self._disk_works)

    def _full_disk(self, random: Random) -> None:
        self._broker.disk.space_bytes = random.randrange(50_000)
        self._broker.is_disk_bad = True
        self._later(random.uniform(100, 8_000), "disk has room", self._disk_works)

    def _disk_works(self) -> None:
        self._broker.disk.failing.clear()
        self._broker.disk.space_bytes = None
        if self._stop_without_directory():
            self._start_later(Random(self._queue.count))

    def _stop_without_directory(self) -> bool:
        """A directory that went offline is taken up by a start alone, which somebody sees to."""
        core = self._broker.core
        if core is None or not self._broker.is_up or not core.log_directories.offline:
            return False
        self._broker.stop()
        return True

    def _bit_flip(self, random: Random) -> None:
        """Flip a bit. The damaged partition is offline once it was read, and served again after a repair and a restart."""
        if self._flips.flip(random):
            self._later(random.uniform(500, 15_000), "repair", lambda: self._repaired(random))

    def _repaired(self, random: Random) -> None:
        if self._repair():
            self._start_later(random)

    def _repair(self) -> bool:
        """Repair the disk and end the broker, which may have read the damage before. False if there was nothing to
        repair.
        """
        was_damaged = self._flips.restore()
        if was_damaged and self._broker.is_up:
            self._broker.die(power=False)
        return was_damaged

    def _clock(self, random: Random) -> None:
        self._broker.jump_ms = random.uniform(-1, 1) * 10 ** random.uniform(1, 5)

    def _client_kill(self, random: Random) -> None:
        client = random.choice(self._clients)
        if client.process.is_alive and not client.is_done:
            client.kill()
            self._later(random.uniform(*DOWN_MS), f"{client.name} start", client.start)

    def _cut(self, random: Random) -> None:
        ends = self._network.ends_of(self._broker.name)
        if ends:
            end = random.choice(ends)
            for one in (end, end.other):
                one.process.after(0, "cut", partial(one.cut, random.randrange(one.in_flight_bytes + 1)))

    def _lost_answer(self, random: Random) -> None:
        """Lose an answer: the request is carried out, and the client sends it again on another connection."""

        def lose(end: StreamEnd) -> None:
            for one in (end, end.other):
                one.process.after(0, "cut", partial(one.cut, 0))

        self._when_answered(random.choice(ANSWERS_THAT_GET_LOST), lose)

    def _vanish(self, random: Random) -> None:
        ends = self._network.ends_of(self._broker.name)
        if ends:
            random.choice(ends).vanish()

    def _held(self, random: Random) -> None:
        ends = self._network.ends_of(self._broker.name)
        if ends:
            random.choice(ends).hold_back(self._queue.now_ms + 10 ** random.uniform(2.5, 4.7))

    def _part(self, random: Random) -> None:
        client = random.choice(self._clients)
        self._network.part(client.name, self._broker.name, self._queue.now_ms + 10 ** random.uniform(2, 4.5))

    def _latency(self, random: Random) -> None:
        self._network.spike_share = random.uniform(0.01, 0.3)
        self._later(random.uniform(1_000, 20_000), "latency", lambda: setattr(self._network, "spike_share", 0.0))
