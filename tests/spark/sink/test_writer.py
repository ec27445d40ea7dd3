"""A sink whose cluster does not answer: a line in the log soon, and an end in time."""

from __future__ import annotations

import logging
import re
import socket

import pytest

from harness.names import unique
from oncelog.client import BrokerRefused, Client, RetriesExhausted
from oncelog.spark import committed_offsets, wait_log
from oncelog.spark.sink import fence
from oncelog.spark.sink.settings import sink_settings
from oncelog.spark.sink.writer import Writer, look_first, offsets_retention_ms, open_client
from oncelog.wire import ErrorCode

DAY_MS = 24 * 60 * 60 * 1000
LIMIT_MS = 700


@pytest.fixture
def settings(monkeypatch):
    """Those of a sink at an address that takes every connection and never answers."""
    monkeypatch.setattr(wait_log, "FIRST_MS", 100)
    monkeypatch.setattr(wait_log, "INTERVAL_MS", 100)
    monkeypatch.setattr(wait_log, "LOOK_MS", 20)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(100)
        yield sink_settings(
            topic="out",
            transactional_id="pipeline",
            bootstrap_servers=f"127.0.0.1:{listener.getsockname()[1]}",
            call_timeout_ms=LIMIT_MS,
        )


def take(settings):
    Writer(settings)


def ask_for_offsets(settings):
    committed_offsets(settings.bootstrap_servers, settings.group_id, call_timeout_ms=LIMIT_MS)


def look(settings):
    with open_client(settings) as client:
        look_first(client, settings, fence.Batch("query", 0, "end", "start", None, 0), [])


@pytest.mark.parametrize(
    ("ask", "about"),
    [
        (take, "transactional id 'pipeline'"),
        (look, "the offsets of group 'pipeline'"),
        (ask_for_offsets, "the offsets of group 'pipeline'"),
    ],
)
def test_a_coordinator_that_does_not_answer_is_said_while_it_is_waited_for(caplog, settings, ask, about):
    told = f"no answer from {settings.bootstrap_servers} about {about}"
    with caplog.at_level(logging.WARNING), pytest.raises(RetriesExhausted) as raised:
        ask(settings)
    assert f"{told} for" in caplog.messages[0]
    assert "giving up after 1 s (call_timeout_ms" in caplog.messages[0]
    assert re.match(re.escape(told) + r" in 1 s \(call_timeout_ms[^)]*\): .", str(raised.value))


def test_checkpoint_that_does_not_fit_is_refused_before_the_transactional_id_is_taken(oncelog_broker):
    """A writer that has the id now is not fenced by a query that cannot go on."""
    own = sink_settings(
        topic="out", transactional_id=unique("pipeline"), bootstrap_servers=oncelog_broker.bootstrap_servers
    )
    with open_client(own) as client, pytest.raises(fence.FenceError, match="has no record of what was committed"):
        look_first(client, own, fence.Batch("query", 7, "end", "start", None, 0), [])


def test_how_long_offsets_are_kept_is_the_brokers_setting(log):
    with Client(log.bootstrap_servers) as client:
        assert offsets_retention_ms(client) == 7 * DAY_MS


def test_offsets_are_taken_to_be_kept_for_a_day_where_the_setting_may_not_be_seen(log, monkeypatch):
    def refused(*of, **settings):
        raise BrokerRefused(ErrorCode.cluster_authorization_failed, "describing settings")

    with Client(log.bootstrap_servers) as client:
        monkeypatch.setattr(client, "describe_configs", refused)
        assert offsets_retention_ms(client) == DAY_MS
