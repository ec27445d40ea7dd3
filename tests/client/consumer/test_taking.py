"""Many partitions that are fetched together and taken one after the other."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from oncelog.client.consumer.fetching import Fetches, FetchSettings
from oncelog.client.errors import BrokerRefused, OffsetOutOfRange, RetriesExhausted
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.metadata import refresh
from oncelog.client.values import TopicPartition
from oncelog.records import Record, build_batch
from oncelog.wire import ErrorCode
from tests.client.scripted import HERE, SETTINGS, ScriptedTransport

COUNT = 30
END = 6
STEP = 2
"""How many records of a partition are in one answer: each is read by three of them."""
VALUE = b"v" * 1000
TIME_MS = 1000.0


class Leader(ScriptedTransport):
    """Leads every partition. `errors` are those with one; `silent` have no records yet."""

    def __init__(self) -> None:
        super().__init__(self.answer)
        self.errors: dict[int, ErrorCode] = {}
        self.silent: set[int] = set()
        self.asked: Counter[int] = Counter()
        self.bytes_out = 0

    def answer(self, request):
        return self._metadata() if request.api.name == "Metadata" else self._fetched(request)

    def _metadata(self):
        partitions = [
            SimpleNamespace(
                error_code=ErrorCode.none,
                partition_index=index,
                leader_id=0,
                leader_epoch=1,
                replica_nodes=(0,),
                isr_nodes=(0,),
            )
            for index in range(COUNT)
        ]
        topic = SimpleNamespace(
            error_code=ErrorCode.none, name="t", topic_id=None, is_internal=False, partitions=partitions
        )
        broker = SimpleNamespace(node_id=0, host=HERE.host, port=HERE.port, rack=None)
        return SimpleNamespace(controller_id=0, brokers=[broker], topics=[topic])

    def _fetched(self, request):
        """As a broker does it: partitions in the order of the request, until `max_bytes` are there (KIP-74)."""
        left = request.fields["max_bytes"]
        items = []
        for asked in (one for topic in request.fields["topics"] for one in topic["partitions"]):
            index, offset = asked["partition"], asked["fetch_offset"]
            self.asked[index] += 1
            error = self.errors.get(index, ErrorCode.none)
            data = b""
            if error is ErrorCode.none and left > 0 and index not in self.silent:
                data = build_batch([Record(b"%d" % index, VALUE)] * min(STEP, END - offset), base_offset=offset)
            left -= len(data)
            self.bytes_out += len(data)
            items.append(
                SimpleNamespace(
                    partition_index=index,
                    error_code=error,
                    records=data,
                    high_watermark=END,
                    last_stable_offset=END,
                    aborted_transactions=None,
                )
            )
        return SimpleNamespace(responses=[SimpleNamespace(topic="t", partitions=items)])


def reading_all(leader: Leader, **settings) -> Fetches:
    cluster = Cluster(SETTINGS)
    leader.run(refresh(cluster, ["t"]))
    fetches = Fetches(cluster, FetchSettings(**settings))
    for index in range(COUNT):
        fetches.read(TopicPartition("t", index), 0, END)
    return fetches


def taken(leader: Leader, fetches: Fetches, index: int) -> int:
    """Take one partition up to its end; the number of answers with records that it took."""
    answers, position = 0, 0
    while position < END:
        fetched = leader.run(fetches.next_of(TopicPartition("t", index), TIME_MS))
        assert fetched.partition.partition == index
        assert fetched.next_offset == position + (STEP if fetched.chunks else 0)
        position, answers = fetched.next_offset, answers + bool(fetched.chunks)
    return answers


def test_partitions_that_fit_into_one_answer_are_one_request():
    leader = Leader()
    cluster = Cluster(SETTINGS)
    leader.run(refresh(cluster, ["t"]))
    fetches = Fetches(cluster, FetchSettings())
    for index in range(COUNT):
        fetches.read(TopicPartition("t", index), END - STEP, END)
    for index in range(COUNT):
        assert leader.run(fetches.next_of(TopicPartition("t", index), TIME_MS)).next_offset == END
    assert leader.names().count("Fetch") == 1


@pytest.mark.parametrize("order", [range(COUNT), range(COUNT - 1, -1, -1)])
def test_each_is_whole_and_in_order_whichever_is_taken_first(order):
    leader = Leader()
    fetches = reading_all(leader)
    assert [taken(leader, fetches, index) for index in order] == [END // STEP] * COUNT
    assert set(leader.asked.values()) == {END // STEP}, "no answer was thrown away"


def test_no_more_is_kept_than_two_answers_have():
    leader = Leader()
    fetches = reading_all(leader, max_bytes=10 * len(VALUE))
    for index in range(COUNT):
        taken(leader, fetches, index)
        assert leader.bytes_out <= ((index + 1) * END + 2 * (10 + STEP)) * (len(VALUE) + 100)


def test_error_of_one_partition_is_told_when_that_is_taken():
    leader = Leader()
    leader.errors = {1: ErrorCode.topic_authorization_failed, 3: ErrorCode.offset_out_of_range}
    fetches = reading_all(leader)
    assert [taken(leader, fetches, index) for index in (0, 2)] == [3, 3]
    with pytest.raises(OffsetOutOfRange, match="offset 0 of t-3"):
        taken(leader, fetches, 3)
    with pytest.raises(BrokerRefused) as refused:
        taken(leader, fetches, 1)
    assert refused.value.error is ErrorCode.topic_authorization_failed
    assert leader.asked[1] < 5, "it is not asked for again before it is taken"
    assert taken(leader, fetches, 4) == 3
    leader.errors.clear()
    fetches.read(TopicPartition("t", 3), 0, END)
    assert taken(leader, fetches, 3) == 3


def test_partition_that_is_moving_holds_no_other_up():
    leader = Leader()
    leader.errors = {0: ErrorCode.not_leader_or_follower}
    fetches = reading_all(leader)
    for index in range(1, COUNT):
        assert taken(leader, fetches, index) == 3
    with pytest.raises(RetriesExhausted, match="t-0: NOT_LEADER_OR_FOLLOWER"):
        taken(leader, fetches, 0)
    leader.errors.clear()
    assert taken(leader, fetches, 0) == 3


def test_partition_without_records_yet_is_said_to_have_none_and_then_read():
    leader = Leader()
    leader.silent = {2, 5}
    fetches = reading_all(leader)
    assert taken(leader, fetches, 0) == 3
    empty = leader.run(fetches.next_of(TopicPartition("t", 2), TIME_MS))
    assert (empty.chunks, empty.next_offset, empty.high_watermark) == ((), 0, END)
    leader.silent.clear()
    assert [taken(leader, fetches, index) for index in (2, 5, 1)] == [3, 3, 3]


def test_partition_that_nobody_reads_cannot_be_taken():
    leader = Leader()
    fetches = reading_all(leader)
    fetches.stop(TopicPartition("t", 7))
    with pytest.raises(ValueError, match="t-7 is not being read"):
        leader.run(fetches.next_of(TopicPartition("t", 7), TIME_MS))
