"""Where logs part, with the examples of KIP-101 and KIP-279, on real logs."""

from __future__ import annotations

from harness.replica_on_memory_disk import ReplicaOnMemoryDisk
from harness.replicas import Replicas, divergence
from oncelog.replication import EpochEnd, Truncation, truncation


def log_of(*epochs: tuple[int, int]) -> ReplicaOnMemoryDisk:
    """Each epoch with so many records."""
    on = ReplicaOnMemoryDisk()
    for epoch, count in epochs:
        on.log.lead(epoch)
        for number in range(count):
            on.produce(b"%d of %d" % (number, epoch))
    on.log.follow()
    return on


def restart(on: Replicas, broker: int) -> None:
    """So fast that the controller does not notice."""
    on.replica(broker).disk.kill()
    on.brokers[broker].start()
    on.tell(broker)


def test_kip_101_follower_that_restarts_does_not_give_up_what_it_has() -> None:
    """KIP-101, scenario 1: a follower cut its log off at its high watermark, the leader failed, and a message was lost."""
    on = Replicas()
    on.produce(1, b"m1")
    on.fetch(2)
    on.fetch(3)
    on.produce(1, b"m2")
    on.fetch(2)
    assert on.replica(2).log.high_watermark < on.replica(2).log.log_end_offset == 2
    on.replica(2).write()
    restart(on, 2)
    on.stop(1, power=True)
    on.elect(2, (2, 3))
    on.tell(2)
    assert b"m2" in on.replica(2).read_all()


def test_kip_101_logs_that_differ_after_everybody_lost_power_are_made_the_same() -> None:
    """KIP-101, scenario 2: at the same offset two replicas had different messages for ever."""
    on = Replicas()
    on.produce(1, b"m1")
    on.fetch(2)
    on.fetch(3)
    on.produce(1, b"m2")
    on.stop(1, power=False)
    on.elect(2, (2,))
    on.tell(2)
    on.produce(2, b"m3")
    assert on.replica(1).log.log_end_offset == on.replica(2).log.log_end_offset
    on.start(1)
    on.settle()
    assert on.replica(1).read_all() == on.replica(2).read_all()
    assert b"m3" in on.replica(1).read_all()
    assert b"m2" not in on.replica(1).read_all()


def test_kip_279_follower_goes_back_epoch_by_epoch_until_both_know_one() -> None:
    """KIP-279: after fast failovers the leader does not know the follower's epoch, nor the follower the leader's."""
    leader, follower = log_of((1, 8), (2, 12), (4, 3)), log_of((1, 10), (3, 5))
    log = follower.log
    told = divergence(leader.log, log.log_end_offset, log.newest_epoch)
    assert told == (2, 20)
    assert truncation(log, EpochEnd(2, 20), 15) == Truncation(10, is_complete=False)
    follower.truncate_to(10)
    told = divergence(leader.log, log.log_end_offset, log.newest_epoch)
    assert told == (1, 8)
    assert truncation(log, EpochEnd(1, 8), 10) == Truncation(8, is_complete=True)
    follower.truncate_to(8)
    assert divergence(leader.log, log.log_end_offset, log.newest_epoch) is None
    assert leader.read_all().startswith(follower.read_all())


def test_follower_that_is_behind_in_the_same_epoch_cuts_nothing_off() -> None:
    leader, follower = log_of((1, 8)), log_of((1, 5))
    assert divergence(leader.log, 5, 1) is None
    assert truncation(follower.log, EpochEnd(1, 8), 5) == Truncation(5, is_complete=True)


def test_leader_tells_an_epoch_that_it_never_had_from_an_offset_beyond_its_log() -> None:
    """Kafka's Partition.readRecords: the end of an epoch above all others cannot be told."""
    leader = log_of((1, 8))
    assert divergence(leader.log, 5, 3) == (-1, -1)
    assert divergence(leader.log, 9, 1) == (1, 8)
    assert divergence(leader.log, 8, -1) is None


def test_answers_of_leaders_that_know_less() -> None:
    """AbstractFetcherThread.getOffsetTruncationState."""
    follower = log_of((5, 8)).log
    assert truncation(follower, EpochEnd(-1, -1), 6) == Truncation(6, is_complete=True)
    assert truncation(follower, EpochEnd(-1, 4), 6) == Truncation(4, is_complete=True)
    assert truncation(follower, EpochEnd(9, 4), 6) == Truncation(4, is_complete=True)
