"""Lines of a broker's log about transactional ids, and that nobody pays for it where it says less."""

from __future__ import annotations

import logging

import pytest

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import TV1, TV2, ProducerInMemory, Protocol, make_topic
from oncelog.broker.coordinators import transaction_log

LOGGER = "oncelog.transactions"


@pytest.fixture
def broker() -> BrokerInMemory:
    broker = BrokerInMemory(SteppedDisk(), ManualClock())
    make_topic(broker)
    return broker


@pytest.mark.parametrize(("protocol", "ends_at"), [(TV1, 0), (TV2, 1)], ids=str)
@pytest.mark.parametrize(("committed", "end"), [(True, "commit"), (False, "abort")])
def test_transaction_has_a_line_for_each_decision(
    broker: BrokerInMemory,
    caplog: pytest.LogCaptureFixture,
    protocol: Protocol,
    ends_at: int,
    committed: bool,
    end: str,
) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        producer = ProducerInMemory(broker, protocol, "teller")
        producer.write("first", 1)
        producer.end(committed=committed)
        broker.settle()
    lines = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    identity = f"producer id {producer.producer_id}, epoch "
    assert lines[0] == f"teller: producer id {producer.producer_id} has epoch 0"
    assert lines[1].startswith("teller: a transaction begins with ")
    assert lines[1].endswith(f", {identity}0")
    assert all(line.startswith("teller: its transaction has ") and line.endswith(", too") for line in lines[2:-2])
    suffix = "ted" if committed else "ed"
    assert lines[-2:] == [
        f"teller: its transaction in 3 partitions is to be {end}{suffix} (Prepare{end.capitalize()}), {identity}{ends_at}",
        f"teller: its transaction is {end}{suffix} in 3 partitions",
    ]


def test_partitions_that_are_added_are_named_once(broker: BrokerInMemory, caplog: pytest.LogCaptureFixture) -> None:
    producer = ProducerInMemory(broker, TV1, "teller")
    with caplog.at_level(logging.INFO, LOGGER):
        producer.write("first", 1)
        before = len(caplog.records)
        producer.write("second", 2)
    assert len(caplog.records) == before


def test_nothing_is_put_into_words_where_nothing_is_said(
    broker: BrokerInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwanted(*_: object) -> str:
        raise AssertionError("nobody reads it")

    monkeypatch.setattr(transaction_log, "news", unwanted)
    monkeypatch.setattr("oncelog.groups.records.news_of", unwanted)
    for protocol in (TV1, TV2):
        producer = ProducerInMemory(broker, protocol)
        producer.write("first", 1)
        producer.end(committed=True)
        broker.settle()
