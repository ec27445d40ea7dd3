"""The end state of a cluster without faults: every partition led and in sync, every transaction complete, all replicas equal."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.broker.storage.partition import Partition, ReplicaRole
from oncelog.client.values import TopicPartition
from oncelog.simulation.audit import audit_committed_offsets, audit_coordinators, audit_decisions, audit_logs
from oncelog.simulation.cluster.ledger import Ledger
from oncelog.simulation.cluster.member_node import MemberNode
from oncelog.simulation.cluster.metadata import ClusterMetadata, TrackedPartition
from oncelog.transactions.state import IDLE


class Agreement:
    def __init__(self, brokers: Sequence[MemberNode], metadata: ClusterMetadata, ledger: Ledger) -> None:
        self._brokers = {broker.broker_id: broker for broker in brokers}
        self._metadata = metadata
        self._ledger = ledger

    def unassembled(self) -> str | None:
        """Names a broker that is not part of the cluster yet, if there is one."""
        for broker in self._brokers.values():
            if broker.served is None:
                return f"{broker.name} is not ready"
        registered = self._metadata.broker_ids()
        if registered != self._brokers.keys():
            return f"ZooKeeper knows brokers {sorted(registered)}"
        return None if self._metadata.controller_id() >= 0 else "there is no controller"

    def unled(self) -> str | None:
        """Names a partition without a leader, with a replica out of sync, or with replicas that know another state."""
        missing = self.unassembled()
        if missing is not None:
            return missing
        return next((reason for one in self._metadata.partitions() if (reason := self._out_of_sync(one))), None)

    def _out_of_sync(self, one: TrackedPartition) -> str | None:
        name, state = f"{one.topic}-{one.index}", one.state
        if state is None or state.leader < 0:
            return f"{name} has no leader"
        if set(state.isr) != set(one.replicas):
            return f"{name} has only {state.isr} in sync, led by {state.leader} under epoch {state.leader_epoch}"
        leader = self._replica(one.topic, one.index, state.leader)
        if leader is None or leader.role is not ReplicaRole.LEADER or leader.leader_epoch != state.leader_epoch:
            return f"{name} is led by broker {state.leader} under epoch {state.leader_epoch}, which does not know it"
        for broker_id in one.replicas:
            replica = self._replica(one.topic, one.index, broker_id)
            if replica is None or replica.is_offline or replica.role is ReplicaRole.NONE:
                return f"{name} has no replica on broker {broker_id}"
        return None

    def incomplete(self) -> str | None:
        """Names a transaction or a replica that is not complete yet."""
        reason = self.unled()
        if reason is not None:
            return reason
        for broker in self._brokers.values():
            assert broker.core is not None, "it is assembled"
            for transaction in broker.core.transactions.coordinator.transactions():
                if transaction.status not in IDLE:
                    return f"{transaction.transactional_id} is {transaction.status.label} on {broker.name}"
        for one in self._metadata.partitions():
            assert one.state is not None, "it is led"
            leader = self._replica(one.topic, one.index, one.state.leader)
            assert leader is not None, "it is led"
            end = leader.log.log_end_offset
            for broker_id in one.replicas:
                replica = self._replica(one.topic, one.index, broker_id)
                assert replica is not None, "it has replicas"
                log = replica.log
                offsets = log.last_stable_offset, log.high_watermark, log.log_end_offset
                if offsets != (end, end, end):
                    return f"{replica} on broker {broker_id} is at {offsets}, and its leader ends at {end}"
        return None

    def check(self) -> None:
        """Raise SimulationFailure where replicas, coordinators or logs contradict each other. Call it when all is settled."""
        self._ledger.check_complete(self._brokers.values())
        for broker in self._brokers.values():
            core = broker.core
            assert core is not None, "it is settled"
            logs = audit_logs(core, {})
            audit_coordinators(core)
            audit_committed_offsets(core)
            audit_decisions(core, logs, ())

    def committed(self, group: str, partition: TopicPartition) -> int:
        """The committed offset by its coordinator; -1 if there is none, or no coordinator."""
        for broker in self._brokers.values():
            core = broker.served
            if core is not None:
                offsets = core.offsets.coordinator.offsets_of(group, require_stable=False).committed
                stored = offsets.get((partition.topic, partition.partition))
                if stored is not None:
                    return stored.committed.offset
        return -1

    def _replica(self, topic: str, index: int, broker_id: int) -> Partition | None:
        core = self._brokers[broker_id].served
        return None if core is None else core.topics.partition(topic, index)
