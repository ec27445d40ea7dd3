"""`oncelog transactions`: what an operator sees of a transaction that holds readers back."""

from __future__ import annotations

import pytest

from harness.names import unique
from oncelog.client import Producer


@pytest.fixture
def topic(here):
    name = unique("held")
    here("topics", "create", name, "--partitions", "2")
    return name


@pytest.fixture
def hanging(topic, oncelog_broker):
    """The id of a producer that wrote two records in a transaction, and does not end it. One lay there before."""
    with Producer(oncelog_broker.bootstrap_servers) as plain:
        plain.send(topic, b"before", partition=0).result()
    name = unique("hanging")
    with Producer(oncelog_broker.bootstrap_servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for value in (b"one", b"two"):
            producer.send(topic, value, partition=0).result()
        yield name
        producer.abort_transaction()


def test_open_transaction_is_listed_with_its_age(here, hanging):
    rows = {row["transactional_id"]: row for row in here("transactions", "list", "--state", "Ongoing", "--json").json}
    assert rows[hanging]["state"] == "Ongoing"
    assert rows[hanging]["open_seconds"] >= 0
    assert rows[hanging]["timeout_seconds"] == 60.0
    old = here("transactions", "list", "--open-for", "3600", "--json").json
    assert hanging not in [row["transactional_id"] for row in old]
    young = here("transactions", "list", "--open-for", "0", "--json").json
    assert hanging in [row["transactional_id"] for row in young]


def test_description_tells_what_is_held_back(here, topic, hanging):
    described = here("transactions", "describe", hanging, "--json").json
    assert described["partitions"] == [
        {
            "topic": topic,
            "partition": 0,
            "first_offset": 1,
            "last_stable_offset": 1,
            "high_watermark": 3,
            "held_back": 2,
            "held_back_by": hanging,
            "waits_for": None,
        }
    ]
    table = here("transactions", "describe", hanging).lines
    assert table[0].startswith("TRANSACTIONAL ID")
    assert table[-1].split() == [topic, "0", "1", "1", "3", "2", hanging]


def test_ended_transaction_is_not_open(here, topic):
    name = unique("ended")
    here("produce", topic, "--transactional-id", name, stdin=b"one\n")
    described = here("transactions", "describe", name, "--json").json
    assert described["state"] in ("PrepareCommit", "CompleteCommit")
    listed = here("transactions", "list", "--state", "Ongoing", "--json").json
    assert name not in [row["transactional_id"] for row in listed]


def test_unknown_id_is_refused(here):
    ended = here("transactions", "describe", "nobody")
    assert ended.status == 4
    assert "TRANSACTIONAL_ID_NOT_FOUND (105)" in ended.sentence


def test_unknown_state_is_wrong_usage(here):
    ended = here("transactions", "list", "--state", "Hanging")
    assert ended.status == 2
    assert "'Hanging' is not one of" in " ".join(ended.errors.split())
