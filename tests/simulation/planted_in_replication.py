"""Bugs planted in how the replicas of a partition follow one another: high watermark, in-sync set, what is cut off."""

from __future__ import annotations

from collections.abc import Container
from typing import Any
from unittest.mock import patch

from oncelog.broker import fetching
from oncelog.cluster.replicas.replica import HostedReplica
from oncelog.log import partition_log
from oncelog.log.leader_epochs import LeaderEpochs
from oncelog.replication import AdvanceHighWatermark, AlterPartition, Follower, IsrPartitionState, LeaderReplica, Step
from oncelog.wire import ErrorCode
from tests.simulation.planting import Hides, Patch, PlantedBugs

BUGS = PlantedBugs()


@BUGS.add("the high watermark waits for no follower", Hides.IN_A_RULE, 20)
def _high_watermark_of_one() -> Patch:
    def high_watermark(self: LeaderReplica, _: int, acknowledged_offset: int, **__: Any) -> int:
        return acknowledged_offset

    return patch.object(LeaderReplica, "high_watermark", high_watermark)


@BUGS.add("the high watermark is as far as the fastest follower", Hides.IN_A_RULE, 40)
def _high_watermark_of_two() -> Patch:
    high_watermark = LeaderReplica.high_watermark

    def highest(self: LeaderReplica, log_end_offset: int, acknowledged_offset: int, **kwargs: Any) -> int | None:
        if high_watermark(self, log_end_offset, acknowledged_offset, **kwargs) is None:
            return None
        return min(acknowledged_offset, max(one.log_end_offset for one in self.followers.values()))

    return patch.object(LeaderReplica, "high_watermark", highest)


@BUGS.add("the high watermark does not wait for a replica that is to leave the in-sync set", Hides.FAILURES, 120)
def _high_watermark_before_the_controller() -> Patch:
    def asked_for(self: IsrPartitionState) -> frozenset[int]:
        return self.isr if self.asked is None else frozenset(self.asked.new_isr)

    return patch.object(IsrPartitionState, "maximal_isr", property(asked_for))


@BUGS.add("min.insync.replicas is not looked at", Hides.FAILURES, 60)
def _one_replica_is_enough() -> Patch:
    return patch.object(LeaderReplica, "needed_isr_size", lambda self, min_isr: 1)


@BUGS.add("a new leader takes all of its log for committed", Hides.CRASHES, 40)
def _leader_commits_its_log() -> Patch:
    lead = HostedReplica.lead

    def leads(self: HostedReplica, told: Any) -> None:
        lead(self, told)
        self.partition.log.advance_high_watermark(self.partition.log.log_end_offset)

    return patch.object(HostedReplica, "lead", leads)


@BUGS.add("a follower takes all of its log for committed", Hides.IN_A_RULE, 60)
def _follower_commits_its_log() -> Patch:
    appended = Follower.appended

    def commits(self: Follower, key: Any, answer: Any, error: ErrorCode, log: Any, now_ms: int) -> tuple[Step, ...]:
        steps = appended(self, key, answer, error, log, now_ms)
        return (*steps, AdvanceHighWatermark(log.log_end_offset))

    return patch.object(Follower, "appended", commits)


@BUGS.add("acks=all is answered at once", Hides.IN_A_RULE, 40)
def _acknowledged_at_once() -> Patch:
    def acknowledgement(self: LeaderReplica, *_: int) -> ErrorCode:
        return ErrorCode.none if self.is_leader else ErrorCode.not_leader_or_follower

    return patch.object(LeaderReplica, "acknowledgement", acknowledgement)


@BUGS.add("a leader that steps down acknowledges what still waits for followers", Hides.FAILURES, 60)
def _acknowledged_in_parting() -> Patch:
    acknowledgement = LeaderReplica.acknowledgement

    def as_if_it_led(self: LeaderReplica, *asked: int) -> ErrorCode | None:
        return acknowledgement(self, *asked) if self.is_leader else ErrorCode.none

    return patch.object(LeaderReplica, "acknowledgement", as_if_it_led)


@BUGS.add("a replica is in sync before it has caught up", Hides.FAILURES, 60)
def _in_sync_too_early() -> Patch:
    def expansion(
        self: LeaderReplica, replica: int, high_watermark: int, alive: Container[int]
    ) -> AlterPartition | None:
        if not self.is_leader or replica not in self.followers or self.state.is_pending or replica in self.state.isr:
            return None
        return self._asking(self.state.isr | {replica}) if replica in alive else None

    return patch.object(LeaderReplica, "expansion", expansion)


@BUGS.add("a leader lets replicas leave the in-sync set without asking the controller", Hides.FAILURES, 120)
def _nobody_is_asked() -> Patch:
    def shrink(self: HostedReplica) -> None:
        asked = self.state.shrinking(self.partition.log.log_end_offset, self._surroundings.clock.now_ms())
        if asked is not None:
            self.state.state = self.state.state.committed(frozenset(asked.new_isr))
            self._advance()

    return patch.object(HostedReplica, "shrink", shrink)


@BUGS.add("a follower cuts off all that it does not know to be committed", Hides.FAILURES, 60)
def _follower_cuts_at_its_high_watermark() -> Patch:
    follow = HostedReplica.follow

    def follows(self: HostedReplica, told: Any) -> None:
        follow(self, told)
        log = self.partition.log
        if log.high_watermark < log.log_end_offset:
            log.truncate_to(log.high_watermark)

    return patch.object(HostedReplica, "follow", follows)


@BUGS.add("a leader does not tell a follower that its log is another one", Hides.FAILURES, 60)
def _nobody_diverges() -> Patch:
    return patch.object(fetching, "_divergence", lambda partition, asked: None)


@BUGS.add("every leader epoch is said to end where the log ends", Hides.FAILURES, 60)
def _epochs_do_not_end() -> Patch:
    end_offset = LeaderEpochs.end_offset

    def end_of_the_log(self: LeaderEpochs, epoch: int, log_end_offset: int) -> tuple[int, int]:
        found, end = end_offset(self, epoch, log_end_offset)
        return found, end if found < 0 else log_end_offset

    return patch.object(LeaderEpochs, "end_offset", end_of_the_log)


@BUGS.add("what is known of producers stays when what they wrote is cut off", Hides.FAILURES, 120)
def _producers_of_what_is_gone() -> Patch:
    return patch.object(partition_log, "reload_producers", lambda *_: None)
