"""What was read of a group before a transaction: the coordinator that was asked may have led no more."""

from __future__ import annotations

from contextlib import closing

import pytest

from harness.names import unique
from oncelog.client import Client, NewTopic, OffsetAndMetadata, TopicPartition
from oncelog.spark.sink.delivery import DriverPump, collected
from oncelog.spark.sink.fence import FenceError
from oncelog.spark.sink.settings import sink_settings
from oncelog.spark.sink.transaction import SinkTransactions

NO_ROWS = collected([], (), DriverPump(), 0)
"""Of such a micro-batch only the offsets are committed."""


@pytest.fixture
def client(log):
    with Client(log.bootstrap_servers) as client:
        yield client


@pytest.fixture
def place(client):
    topic = unique("in")
    client.create_topics([NewTopic(topic, 1, 1)])
    return TopicPartition(topic, 0)


@pytest.mark.on_a_cluster
def test_micro_batch_that_was_committed_and_not_seen_is_not_written_again(log, client, place):
    name = unique("pipeline")
    settings = sink_settings(topic=place.topic, transactional_id=name, bootstrap_servers=log.bootstrap_servers)

    def committed() -> str:
        return client.committed_offsets(name)[place].metadata

    with closing(SinkTransactions(settings, client)) as transactions:

        def commit(batch_id: int) -> None:
            transactions.commit(
                NO_ROWS, (), {place: OffsetAndMetadata(batch_id, f"micro-batch {batch_id}")}, lambda: True
            )

        commit(9)
        seen_by_a_coordinator_that_leads_no_more = client.committed_offsets(name)
        commit(10)
        transactions.confirm(seen_by_a_coordinator_that_leads_no_more)
        with pytest.raises(FenceError, match=f"group '{name}' has committed more than its coordinator said at first"):
            commit(10)
        transactions.confirm(client.committed_offsets(name))
        commit(11)
        assert committed() == "micro-batch 11"
        commit(12)
        assert committed() == "micro-batch 12"
