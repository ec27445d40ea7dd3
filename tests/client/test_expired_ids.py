"""A producer that was idle for so long that its coordinator has forgotten it, on our broker and on Apache Kafka."""

from __future__ import annotations

import pytest

from harness.names import unique
from harness.waiting import until
from oncelog.client import Client, Producer, ProducerFenced, TransactionalIdExpired, TransactionVersion
from oncelog.client.producer import transaction

FORGETFUL = {
    "transactional.id.expiration.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}


@pytest.fixture(params=["oncelog", pytest.param("apache", marks=pytest.mark.jvm)])
def forgetful(request, new_oncelog):
    maker = new_oncelog if request.param == "oncelog" else request.getfixturevalue("new_kafka")
    return maker(**FORGETFUL)


@pytest.fixture(params=list(TransactionVersion), ids=lambda version: version.name)
def protocol(request, monkeypatch):
    async def chosen(_cluster):
        return request.param

    monkeypatch.setattr(transaction, "transaction_version", chosen)


def begin(producer: Producer) -> Producer:
    producer.init_transactions()
    producer.begin_transaction()
    return producer


def commit(producer: Producer) -> None:
    producer.send("orders", b"3 apples").result()
    producer.commit_transaction()


@pytest.mark.usefixtures("protocol")
def test_idle_producer_is_told_that_its_id_has_expired_and_a_new_one_goes_on(forgetful):
    name, servers = unique("idle"), forgetful.bootstrap_servers
    with Producer(servers, transactional_id=name) as idle, Client(servers) as client:
        commit(begin(idle))
        until(lambda: name not in {found.transactional_id for found in client.list_transactions()})
        idle.begin_transaction()
        with pytest.raises(TransactionalIdExpired, match=r"transactional\.id\.expiration\.ms"):
            commit(idle)
        with pytest.raises(TransactionalIdExpired):
            idle.abort_transaction()
        with Producer(servers, transactional_id=name) as next_one:
            commit(begin(next_one))


@pytest.mark.usefixtures("protocol")
def test_idle_producer_whose_id_another_one_has_by_now_is_fenced(forgetful):
    name, servers = unique("idle"), forgetful.bootstrap_servers
    with Producer(servers, transactional_id=name) as idle, Client(servers) as client:
        commit(begin(idle))
        until(lambda: name not in {found.transactional_id for found in client.list_transactions()})
        with Producer(servers, transactional_id=name) as other:
            begin(other).send("orders", b"2 pears").result()
            idle.begin_transaction()
            with pytest.raises(ProducerFenced):
                commit(idle)
            other.commit_transaction()
