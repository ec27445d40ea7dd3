"""An offset that a leader does not have: the log may have lost it, and the leader may be one no more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from uuid import UUID

import pytest

from oncelog.client.consumer.fetching import Fetches, FetchSettings
from oncelog.client.errors import OffsetOutOfRange
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import Send
from oncelog.client.net.metadata import refresh
from oncelog.client.values import Address, TopicPartition
from oncelog.records import Record, build_batch
from oncelog.wire import ErrorCode
from tests.client.scripted import SETTINGS, ScriptedTransport

OLD, NEW, OTHER = NODES = tuple(Address(name, 9092) for name in ("old", "new", "other"))
THREE = replace(SETTINGS, bootstrap=NODES)
INPUT = TopicPartition("input", 0)
TOPIC_ID, ANOTHER_ID = UUID(int=1), UUID(int=2)


@dataclass
class KnownLeader:
    """Whom a node takes for the leader, and since which epoch."""

    leader: Address
    epoch: int
    topic_id: UUID | None = TOPIC_ID


class Replicas(ScriptedTransport):
    """Three brokers with the partition. `known` is what each knows of its leader, and `ends` where its log ends.

    Kafka's Partition.checkCurrentLeaderEpoch: an older epoch is fenced, a newer one unknown. A follower lets consumers read.
    """

    def __init__(self, known: dict[Address, KnownLeader], ends: dict[Address, int]) -> None:
        super().__init__(self.answer)
        self.known = known
        self.ends = ends
        self.asked: list[tuple[str, Address]] = []

    def _perform(self, effect):
        if isinstance(effect, Send):
            self.asked.append((effect.request.api.name, effect.address))
        return super()._perform(effect)

    def answer(self, request):
        node = self.asked[-1][1]
        answers = {"Metadata": self._metadata, "Fetch": self._fetch, "ListOffsets": self._list_offsets}
        return answers[request.api.name](node, request)

    def _metadata(self, node: Address, _request):
        known = self.known[node]
        nodes = [SimpleNamespace(node_id=number, host=a.host, port=a.port, rack=None) for number, a in enumerate(NODES)]
        partition = SimpleNamespace(
            error_code=ErrorCode.none,
            partition_index=0,
            leader_id=NODES.index(known.leader),
            leader_epoch=known.epoch,
            replica_nodes=(0, 1, 2),
            isr_nodes=(0, 1, 2),
        )
        topic = SimpleNamespace(
            error_code=ErrorCode.none, name="input", topic_id=known.topic_id, is_internal=False, partitions=[partition]
        )
        return SimpleNamespace(controller_id=0, brokers=nodes, topics=[topic])

    def _fetch(self, node: Address, request):
        ((asked,),) = (topic["partitions"] for topic in request.fields["topics"])
        epoch, offset = asked["current_leader_epoch"], asked["fetch_offset"]
        error, data = self._epoch_error(node, epoch), b""
        if error is not ErrorCode.none:
            pass
        elif offset > self.ends[node]:
            error = ErrorCode.offset_out_of_range
        elif offset < self.ends[node]:
            data = build_batch([Record(None, b"value")] * (self.ends[node] - offset), base_offset=offset)
        item = SimpleNamespace(
            partition_index=0,
            error_code=error,
            records=data,
            high_watermark=self.ends[node],
            last_stable_offset=self.ends[node],
            aborted_transactions=None,
        )
        return SimpleNamespace(responses=[SimpleNamespace(topic="input", partitions=[item])])

    def _list_offsets(self, node: Address, request):
        ((asked,),) = (topic["partitions"] for topic in request.fields["topics"])
        error = self._epoch_error(node, asked["current_leader_epoch"])
        item = SimpleNamespace(partition_index=0, error_code=error, offset=self.ends[node], timestamp=-1)
        return SimpleNamespace(topics=[SimpleNamespace(name="input", partitions=[item])])

    def _epoch_error(self, node: Address, epoch: int) -> ErrorCode:
        if 0 <= epoch < self.known[node].epoch:
            return ErrorCode.fenced_leader_epoch
        return ErrorCode.unknown_leader_epoch if epoch > self.known[node].epoch else ErrorCode.none


def reading_at(replicas: Replicas, offset: int) -> Fetches:
    """The client has heard of the partition from the first node, long ago."""
    cluster = Cluster(THREE)
    replicas.run(refresh(cluster, ["input"]))
    fetches = Fetches(cluster, FetchSettings())
    fetches.read(INPUT, offset)
    return fetches


def test_follower_that_led_before_is_not_taken_for_the_leader_by_a_reader_that_is_ahead_of_it():
    """KIP-320: the epoch that the client knows is in the request, so that a broker may say that it is an old one."""
    replicas = Replicas(dict.fromkeys(NODES, KnownLeader(OLD, 6)), {OLD: 34, NEW: 50, OTHER: 50})
    fetches = reading_at(replicas, 46)
    replicas.known = dict.fromkeys(NODES, KnownLeader(NEW, 7))
    (fetched,) = replicas.run(fetches.next(10_000))
    assert fetched.next_offset == 50
    assert replicas.asked[-1] == ("Fetch", NEW)


def test_leader_that_does_not_know_that_it_is_none_any_more_sends_no_reader_back():
    """It is parted from the others, and its epoch is the one that the client knows."""
    replicas = Replicas(dict.fromkeys(NODES, KnownLeader(OLD, 6)), {OLD: 34, NEW: 50, OTHER: 50})
    fetches = reading_at(replicas, 46)
    replicas.known |= dict.fromkeys((NEW, OTHER), KnownLeader(NEW, 7))
    (fetched,) = replicas.run(fetches.next(10_000))
    assert fetched.next_offset == 50
    assert replicas.asked[1:4] == [("Fetch", OLD), ("Metadata", NEW), ("Fetch", NEW)]


def test_offset_that_the_log_does_not_have_is_an_error_once_the_leader_has_said_so_twice():
    replicas = Replicas(dict.fromkeys(NODES, KnownLeader(OLD, 6)), dict.fromkeys(NODES, 34))
    fetches = reading_at(replicas, 46)
    with pytest.raises(OffsetOutOfRange, match="offset 46 of input-0"):
        replicas.run(fetches.next(10_000))
    assert [node for name, node in replicas.asked if name == "Fetch"] == [OLD, OLD]
    fetches.read(INPUT, 34)
    assert replicas.run(fetches.next(10))[0].next_offset == 34


def test_node_that_names_an_older_leader_is_not_believed():
    """KIP-320: a client does not go back to an older epoch than it has heard of."""
    replicas = Replicas(dict.fromkeys(NODES, KnownLeader(NEW, 7)), {})
    cluster = Cluster(THREE)
    replicas.run(refresh(cluster, ["input"]))
    replicas.known = dict.fromkeys(NODES, KnownLeader(OLD, 6))
    replicas.run(refresh(cluster, ["input"]))
    assert (cluster.leader(INPUT), cluster.leader_epoch(INPUT)) == (NEW, 7)
    cluster.forget_leader(INPUT)
    replicas.run(refresh(cluster, None))
    assert (cluster.leader(INPUT), cluster.leader_epoch(INPUT)) == (None, 7)
    replicas.known = dict.fromkeys(NODES, KnownLeader(OTHER, 7))
    replicas.run(refresh(cluster, ["input"]))
    assert cluster.leader(INPUT) == OTHER


@pytest.mark.parametrize("topic_id", [ANOTHER_ID, None])
def test_topic_that_was_made_anew_begins_with_its_first_epoch(topic_id):
    """Brokers before Kafka 2.8 do not tell topics of the same name apart."""
    replicas = Replicas(dict.fromkeys(NODES, KnownLeader(NEW, 7)), {})
    cluster = Cluster(THREE)
    replicas.run(refresh(cluster, ["input"]))
    replicas.known = dict.fromkeys(NODES, KnownLeader(OLD, 0, topic_id))
    replicas.run(refresh(cluster, ["input"]))
    assert (cluster.leader(INPUT), cluster.leader_epoch(INPUT)) == (OLD, 0)
