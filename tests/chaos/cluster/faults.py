"""What befalls a cluster: kinds of faults, each from a beginning to an end, and who draws them.

Brokers keep what they have written, so whatever comes together here loses nothing that was acknowledged. It may well be that
nothing goes on for a while: in the calm after a few faults it must.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from random import Random

from harness.network import Way, both_ways, broker_name, one_way
from harness.processes import BrokerProcess
from tests.chaos.cluster.world import CLIENTS, FragileCluster
from tests.chaos.copying import Copiers

Brokers = list[int]
"""Those that a fault strikes."""
Lasting = AbstractContextManager[object]
"""A fault, as long as it lasts."""
AT_ONCE_MAX = 2
PAUSES_SECONDS = (0.0, 1.5)
LASTS_SECONDS = ((0.2, 1.5), (3.5, 6.0))
"""Less than a session, or more."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault, and how many brokers one of it strikes. Of ZooKeeper one server suffers at a time."""

    name: str
    begin: Callable[[Brokers], Lasting]
    brokers: int = 1
    is_instant: bool = False
    strikes_zookeeper: bool = False


@dataclass(frozen=True, slots=True)
class ActiveFault:
    kind: Kind
    brokers: Brokers
    ends_at: float
    lasting: Lasting


class FaultKinds:
    """All that can be done to a cluster."""

    def __init__(self, world: FragileCluster, copiers: Copiers, chance: Random) -> None:
        self._world, self._copiers, self._chance = world, copiers, chance
        self._away: set[BrokerProcess] = set()

    def all(self) -> list[Kind]:
        kinds = [
            Kind("broker killed", self._killed),
            Kind("broker stopped", self._stopped),
            Kind("broker cut off from all", self._alone),
            Kind("broker cut off from the others", self._apart),
            Kind("broker that nobody hears", self._unheard),
            Kind("broker that hears nobody", self._deaf),
            Kind("link cut", self._link, brokers=2),
            Kind("link cut one way", self._link_one_way, brokers=2),
            Kind("ZooKeeper out of reach", self._without_zookeeper),
            Kind("ZooKeeper does not hear a broker", self._unheard_by_zookeeper),
            Kind("broker does not hear ZooKeeper", self._deaf_to_zookeeper),
            Kind("ZooKeeper leader killed", self._zookeeper_leader_killed, brokers=0, strikes_zookeeper=True),
            Kind("ZooKeeper leader stopped", self._zookeeper_leader_stopped, brokers=0, strikes_zookeeper=True),
            Kind("clients' connections closed", self._clients_closed, is_instant=True),
            Kind("copier killed", self._copier_killed, brokers=0, is_instant=True),
            Kind("copier stopped", self._copier_stopped, brokers=0, is_instant=True),
        ]
        if self._world.disks:
            kinds.append(Kind("disk full", self._full_disk))
        return kinds

    def is_away(self, process: BrokerProcess) -> bool:
        """It was killed and has not been started again."""
        return process in self._away

    @contextmanager
    def _killed(self, brokers: Brokers) -> Iterator[None]:
        with self._without(self._world.cluster.brokers[brokers[0]]):
            yield

    @contextmanager
    def _stopped(self, brokers: Brokers) -> Iterator[None]:
        with _suspended(self._world.cluster.brokers[brokers[0]]):
            yield

    def _alone(self, brokers: Brokers) -> Lasting:
        return self._cut(both_ways(_names(brokers), self._world.others(brokers) + self._world.servers))

    def _apart(self, brokers: Brokers) -> Lasting:
        return self._cut(both_ways(_names(brokers), self._world.others(brokers)))

    def _unheard(self, brokers: Brokers) -> Lasting:
        return self._silence(one_way(_names(brokers), self._world.others(brokers)))

    def _deaf(self, brokers: Brokers) -> Lasting:
        return self._silence(one_way(self._world.others(brokers), _names(brokers)))

    def _link(self, brokers: Brokers) -> Lasting:
        return self._cut(both_ways(_names(brokers[:1]), _names(brokers[1:])))

    def _link_one_way(self, brokers: Brokers) -> Lasting:
        return self._silence(one_way(_names(brokers[:1]), _names(brokers[1:])))

    def _without_zookeeper(self, brokers: Brokers) -> Lasting:
        return self._cut(both_ways(_names(brokers), self._world.servers))

    def _unheard_by_zookeeper(self, brokers: Brokers) -> Lasting:
        return self._silence(one_way(_names(brokers), self._world.servers))

    def _deaf_to_zookeeper(self, brokers: Brokers) -> Lasting:
        return self._silence(one_way(self._world.servers, _names(brokers)))

    @contextmanager
    def _zookeeper_leader_killed(self, _: Brokers) -> Iterator[None]:
        with self._without(self._zookeeper_leader()):
            yield

    @contextmanager
    def _zookeeper_leader_stopped(self, _: Brokers) -> Iterator[None]:
        with _suspended(self._zookeeper_leader()):
            yield

    def _zookeeper_leader(self) -> BrokerProcess:
        """Between two leaders it is the last server, which will be the next."""
        servers = self._world.zookeeper.servers
        return next((server for server in servers if server.is_leader), servers[-1])

    def _clients_closed(self, brokers: Brokers) -> Lasting:
        self._world.network.close_connections(both_ways([CLIENTS], _names(brokers)))
        return nullcontext()

    def _copier_killed(self, _: Brokers) -> Lasting:
        self._copiers.kill_one()
        return nullcontext()

    def _copier_stopped(self, _: Brokers) -> Lasting:
        self._copiers.stop_one()
        return nullcontext()

    @contextmanager
    def _full_disk(self, brokers: Brokers) -> Iterator[None]:
        disk = self._world.disks[brokers[0]]
        disk.be_full()
        try:
            yield
        finally:
            disk.have_room()

    @contextmanager
    def _without(self, process: BrokerProcess) -> Iterator[None]:
        self._away.add(process)
        process.kill()
        try:
            yield
        finally:
            process.launch()
            self._away.discard(process)

    def _cut(self, ways: Iterable[Way]) -> Lasting:
        """The connections end, or nobody is told."""
        return self._silence(ways, closes=self._chance.random() < 1 / 3)

    @contextmanager
    def _silence(self, ways: Iterable[Way], *, closes: bool = False) -> Iterator[None]:
        cut = self._world.network.cut(ways, closes=closes)
        try:
            yield
        finally:
            self._world.network.mend(cut)


class Faults:
    """Draws faults, and ends them. Every kind comes before one comes again; a broker suffers one at a time."""

    def __init__(self, kinds: FaultKinds, brokers: Iterable[int], chance: Random, say: Callable[[str], None]) -> None:
        self._kinds, self._brokers, self._chance, self._say = kinds, sorted(brokers), chance, say
        self._due: list[Kind] = []
        self._active: list[ActiveFault] = []
        self._next_at = 0.0
        self.done: Counter[str] = Counter()

    @property
    def is_over(self) -> bool:
        return not self._active

    def end_some(self) -> None:
        """Those that have lasted for as long as they were to last."""
        now = time.monotonic()
        for fault in [one for one in self._active if one.ends_at < now]:
            self._end(fault)

    def begin_another(self) -> None:
        """Where it is time for it."""
        if time.monotonic() >= self._next_at and len(self._active) < AT_ONCE_MAX:
            self._begin()
            self._next_at = time.monotonic() + self._chance.uniform(*PAUSES_SECONDS)

    def end(self) -> None:
        for fault in list(self._active):
            self._end(fault)

    def _begin(self) -> None:
        if not self._due:
            self._due = self._kinds.all()
            self._chance.shuffle(self._due)
        kind = self._due[-1]
        struck = {broker for fault in self._active for broker in fault.brokers}
        free = [broker for broker in self._brokers if broker not in struck]
        is_too_much = kind.strikes_zookeeper and any(fault.kind.strikes_zookeeper for fault in self._active)
        if len(free) < kind.brokers or is_too_much:
            return
        self._due.pop()
        self.done[kind.name] += 1
        brokers = self._chance.sample(free, kind.brokers)
        seconds = 0.0 if kind.is_instant else self._chance.uniform(*self._chance.choice(LASTS_SECONDS))
        self._say(f"{kind.name} {brokers or ''} for {seconds:.1f} s")
        lasting = kind.begin(brokers)
        lasting.__enter__()
        self._active.append(ActiveFault(kind, brokers, time.monotonic() + seconds, lasting))

    def _end(self, fault: ActiveFault) -> None:
        self._active.remove(fault)
        self._say(f"end of {fault.kind.name} {fault.brokers or ''}")
        fault.lasting.__exit__(None, None, None)


@contextmanager
def _suspended(process: BrokerProcess) -> Iterator[None]:
    process.suspend()
    try:
        yield
    finally:
        process.resume()


def _names(brokers: Brokers) -> list[str]:
    return [broker_name(one) for one in brokers]
