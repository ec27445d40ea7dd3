"""The record of what a group has committed last, in a group that outlives the offsets of the first."""

from __future__ import annotations

import pytest

from harness.names import unique
from oncelog.client import BrokerRefused, Client, OffsetAndMetadata, RetriesExhausted, TopicPartition
from oncelog.spark.sink import fence
from oncelog.spark.sink.fence import FenceError, FenceRecord
from oncelog.spark.sink.kept_groups import LastFenceRecord
from oncelog.wire import ErrorCode
from tests.spark import topics

FIRST, SECOND = FenceRecord("q", 4, "end", 7), FenceRecord("q", 5, "end", 8, 99)


def test_record_that_was_kept_last_is_read(log):
    group, source = unique("group"), topics.create(log.bootstrap_servers, unique("in"), 2)
    partitions = [TopicPartition(source, number) for number in range(2)]
    with Client(log.bootstrap_servers) as client:
        assert LastFenceRecord(client, group).read() is None
        LastFenceRecord(client, group).keep(FIRST, partitions)
        LastFenceRecord(client, group).keep(SECOND, partitions[1:])
        assert LastFenceRecord(client, group).read() == SECOND
        assert client.committed_offsets(group) == {}


class RefusingClient:
    """A broker whose rights or whose state do not allow it."""

    def __init__(self, error):
        self.error = error
        self.asked = 0

    def commit_offsets(self, group, committed, *, retention_ms):
        self.asked += 1
        raise self.error

    def committed_offsets(self, group, *, require_stable):
        raise self.error


@pytest.mark.parametrize(
    ("error", "asked"),
    [(BrokerRefused(ErrorCode.group_authorization_failed, "committing"), 1), (RetriesExhausted("committing"), 2)],
    ids=["no right", "no answer"],
)
def test_sink_goes_on_without_it_and_says_what_that_means(caplog, error, asked):
    client = RefusingClient(error)
    record = LastFenceRecord(client, "pipeline")
    for _ in range(2):
        record.keep(FIRST, [TopicPartition("in", 0)])
    assert record.read() is None
    assert client.asked == asked
    assert "group 'pipeline-fence' cannot be written" in caplog.messages[0]
    assert "offsets.retention.minutes" in caplog.messages[0]


def test_record_of_another_version_stops():
    class Newer:
        def committed_offsets(self, group, *, require_stable):
            return {TopicPartition("in", 0): OffsetAndMetadata(4, '{"oncelog":3}')}

    assert fence.FENCE_VERSION == 2
    with pytest.raises(FenceError, match="version 3"):
        LastFenceRecord(Newer(), "pipeline").read()
