"""A node with a broker that is one of several: a `BrokerNode` with links to the others and a client of ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from oncelog.broker import BrokerCore, Environment, Readiness
from oncelog.cluster.zookeeper.asking import SessionEndedError
from oncelog.cluster.zookeeper_metadata import ZooKeeperMetadata
from oncelog.environment import BrokerNetwork
from oncelog.simulation.broker_node import RETRY_START_MS, BrokerNode
from oncelog.simulation.cluster.zookeeper import SimulatedEnsemble, SimulatedZooKeeper
from oncelog.simulation.disk import SimulatedDisk
from oncelog.simulation.events import EventQueue, Process
from oncelog.simulation.links import SimulatedLinks
from oncelog.simulation.network import Network


class MemberNode(BrokerNode):
    def __init__(
        self,
        broker_id: int,
        queue: EventQueue,
        network: Network,
        ensemble: SimulatedEnsemble,
        disk: SimulatedDisk,
        random: Random,
        settings: Mapping[str, str],
        failed: Callable[[BaseException], None],
    ) -> None:
        own = {"broker.id": str(broker_id)}
        super().__init__(f"broker-{broker_id}", queue, network, disk, random, {**settings, **own}, ["/data"], failed)
        self.broker_id = broker_id
        self.has_lost_power = False
        """Its power was cut, and not all that it had lost came back from the others since."""
        self.is_to_be_left_out = False
        """Its power was cut, and it was not started since: it must not be taken for in sync when it is."""
        self.has_lost_disk = False
        """It went with the power, and there is an empty one in its place at the next start."""
        self._ensemble = ensemble
        self._ended: list[BrokerCore] = []
        """Nothing of them may be collected during the run: what their flows give back then would happen at an odd time."""

    @property
    def served(self) -> BrokerCore | None:
        """The broker, if it is up and the controller has told it what there is."""
        core = self.core
        return core if core is not None and self.is_up and core.progress.reached is Readiness.COORDINATORS else None

    def log_end_offset(self, topic: str, index: int) -> int:
        """How far its replica of a partition has come; -1 without one.

        What a power cut has taken from it counts until it is left out: nobody else knows of that before.
        """
        ends = [] if self.core is None else [_end_of_log(self.core, topic, index)]
        for core in reversed(self._ended):
            ends.append(_end_of_log(core, topic, index))
            if ends[-1] >= 0:
                # Those that ended before they had opened it say nothing.
                break
        return max(ends, default=-1)

    def start(self) -> None:
        """After a power cut what was not synced is lost by now, or all of it."""
        if self.has_lost_disk:
            self.disk.replace()
        elif self.is_to_be_left_out:
            self.disk.crash()
        self.is_to_be_left_out = self.has_lost_disk = False
        super().start()

    def lose_nothing(self) -> None:
        """The disk had written everything by itself when its power was cut."""
        self.is_to_be_left_out = self.has_lost_power = self.has_lost_disk = False

    def environment(self, process: Process) -> Environment:
        session_ms = int(self.settings["zookeeper.session.timeout.ms"])
        zookeeper = SimulatedZooKeeper(self._ensemble, process, self._random, session_ms)
        new_metadata = partial(ZooKeeperMetadata, zookeeper, self.links(process))
        return super().environment(process)._replace(new_metadata=new_metadata)

    def links(self, process: Process) -> BrokerNetwork:
        """Its way to the other brokers."""
        return SimulatedLinks(process, self._network)

    def stop(self) -> None:
        """As a signal stops it; one that still starts is killed."""
        if self.served is None:
            if self.is_up:
                self.die(power=False)
        else:
            super().stop()

    def die(self, *, power: bool) -> None:
        """Ends the process. A power cut decides about unsynced data only at the next start."""
        self._end(silently=power)
        self.disk.kill()
        self.power_cuts += power
        self.has_lost_power |= power
        self.is_to_be_left_out |= power

    def _ended_in_step(self, *, power: bool) -> None:
        """It is killed, and keeps its power: whose power is cut, and when, is decided with what the others have in mind."""
        self._die_and_come_back()

    def _end(self, *, silently: bool) -> None:
        if self.core is not None:
            self._ended.append(self.core)
        super()._end(silently=silently)

    def _stopped(self, error: BaseException) -> None:
        """A start that outlives its session with ZooKeeper is none; somebody starts the broker again."""
        if isinstance(error, SessionEndedError):
            self._die_and_come_back()
        else:
            super()._stopped(error)

    def _die_and_come_back(self) -> None:
        self.die(power=False)
        self._queue.after(RETRY_START_MS, f"{self.name} start", self.start)


def _end_of_log(core: BrokerCore, topic: str, index: int) -> int:
    """Log end offset of a log that is open, or was when its broker ended; else -1."""
    partition = core.topics.partition(topic, index) if hasattr(core, "topics") else None
    return partition.log.log_end_offset if partition is not None and hasattr(partition, "log") else -1
