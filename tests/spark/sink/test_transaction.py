"""The transactions of a driver that does not know what others have done since it looked."""

from __future__ import annotations

from contextlib import closing

import pytest

from harness.names import unique
from harness.waiting import until
from oncelog.client import Client, NewTopic, OffsetAndMetadata, TopicPartition, TransactionalIdExpired
from oncelog.spark.sink.delivery import CollectedBatches, DriverSender
from oncelog.spark.sink.fence import FenceError
from oncelog.spark.sink.settings import sink_settings
from oncelog.spark.sink.transaction import SinkTransactions, has_changed
from oncelog.testing.proxy import Proxy
from tests.spark.strikes import OlderCluster

NO_ROWS = CollectedBatches([], (), DriverSender())
"""Of such a micro-batch only the offsets are committed."""

FORGETFUL = {
    "transactional.id.expiration.ms": "5000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
}


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
            transactions.commit(NO_ROWS, {place: OffsetAndMetadata(batch_id, f"micro-batch {batch_id}")}, lambda: True)

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


@pytest.mark.parametrize("generation", [OlderCluster, Proxy], ids=["first generation", "second generation"])
def test_driver_that_was_forgotten_twice_does_not_go_on_from_what_it_knew(new_oncelog, generation):
    """KIP-360: a producer id that its coordinator has forgotten, with the transactional id, is followed by a new one.

    So the driver that stood still is not refused, though another one has written under the id in between.
    """
    proxy = generation(new_oncelog(**FORGETFUL).bootstrap_servers)
    name = unique("pipeline")
    place = TopicPartition(unique("in"), 0)
    settings = sink_settings(topic=place.topic, transactional_id=name, bootstrap_servers=proxy.bootstrap_servers)
    with proxy, Client(proxy.bootstrap_servers) as client, closing(SinkTransactions(settings, client)) as stood_still:
        client.create_topics([NewTopic(place.topic, 1, 1)])

        def commit(transactions: SinkTransactions, batch_id: int) -> None:
            transactions.commit(NO_ROWS, {place: OffsetAndMetadata(batch_id, f"micro-batch {batch_id}")}, lambda: True)

        def is_forgotten() -> bool:
            return name not in {found.transactional_id for found in client.list_transactions()}

        commit(stood_still, 9)
        until(is_forgotten)
        with closing(SinkTransactions(settings, client)) as took_over:
            commit(took_over, 10)
            commit(took_over, 11)
        until(is_forgotten)
        with pytest.raises(TransactionalIdExpired):
            commit(stood_still, 10)
        assert client.committed_offsets(name)[place].metadata == "micro-batch 11"


A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.mark.parametrize("odd", [A0, A1, B0], ids=str)
def test_group_has_changed_when_one_of_several_partitions_has(odd):
    read = {partition: OffsetAndMetadata(5, "fence") for partition in (A0, A1, B0)}
    assert not has_changed(read, dict(read))
    assert not has_changed(read, {odd: read[odd]}), "of the others nothing was committed now"
    assert has_changed(read, read | {odd: OffsetAndMetadata(6, "fence")})
    assert has_changed(read, read | {odd: OffsetAndMetadata(5, "another fence")})
    assert has_changed({partition: entry for partition, entry in read.items() if partition != odd}, read)
