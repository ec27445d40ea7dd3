"""`oncelog topics producers`: who writes to a topic."""

from __future__ import annotations

import pytest

from harness.names import unique
from oncelog.client import Producer


@pytest.fixture
def topic(here):
    name = unique("written")
    here("topics", "create", name, "--partitions", "2")
    return name


def test_producers_are_shown_with_their_sequence_and_open_transaction(here, topic, oncelog_broker):
    name = unique("writer")
    with (
        Producer(oncelog_broker.bootstrap_servers) as idempotent,
        Producer(oncelog_broker.bootstrap_servers, transactional_id=name) as transactional,
    ):
        for _ in range(3):
            idempotent.send(topic, b"value", partition=0).result()
        transactional.init_transactions()
        transactional.begin_transaction()
        transactional.send(topic, b"value", partition=1).result()
        alone, open_one = here("topics", "producers", topic, "--json").json
        assert (alone["partition"], alone["transactional_id"], alone["last_sequence"]) == (0, None, 2)
        assert alone["transaction_start_offset"] is None
        assert (open_one["partition"], open_one["transactional_id"], open_one["last_sequence"]) == (1, name, 0)
        assert open_one["transaction_start_offset"] == 0
        transactional.commit_transaction()
    ended = here("topics", "producers", topic, "--json").json[1]
    assert (ended["transaction_start_offset"], ended["coordinator_epoch"]) == (None, 0)
    assert here("topics", "producers", topic).lines[0].split()[:2] == ["TOPIC", "PARTITION"]


def test_topic_that_nobody_has_written_to_has_no_producers(here, topic):
    assert here("topics", "producers", topic, "--json").json == []


def test_topic_that_is_not_there_is_named(here):
    missing = here("topics", "producers", "nowhere")
    assert (missing.status, missing.sentence) == (4, "there is no topic nowhere")
