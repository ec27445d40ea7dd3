"""run_stateless(...) against brokers: no checkpoint, the committed offsets are all there is."""

from __future__ import annotations

import threading

import pytest

from oncelog.spark import OptionError, run_stateless
from oncelog.testing.proxy import ApiKey, Proxy, Then
from tests.spark import topics
from tests.support.names import unique

pytestmark = pytest.mark.spark

COUNT = 300


def upper(rows):
    return rows.selectExpr("key", "upper(cast(value as string)) value")


class Stateless:
    def __init__(self, spark, log):
        self.spark, self.servers = spark, log.bootstrap_servers
        self.settings = {
            "from_topic": topics.create(self.servers, unique("in"), 2),
            "to_topic": topics.create(self.servers, unique("out"), 2),
            "transactional_id": unique("stateless"),
            "bootstrap_servers": self.servers,
            "once": True,
        }
        topics.produce(self.servers, self.settings["from_topic"], topics.keyed_records(COUNT))

    def run(self, transform=upper, **settings):
        return run_stateless(self.spark, transform, **{**self.settings, **settings})

    def produce(self, count, start):
        topics.produce(self.servers, self.settings["from_topic"], topics.keyed_records(count, start=start))

    def assert_copied_once(self, count):
        expected = {}
        for key, value in topics.keyed_records(count):
            expected.setdefault(key, []).append(value.upper())
        assert topics.by_key(topics.read(self.servers, self.settings["to_topic"])) == expected


@pytest.fixture
def stateless(spark, log):
    return Stateless(spark, log)


def test_it_goes_on_where_the_committed_offsets_are(stateless):
    metrics = stateless.run(max_offsets_per_batch=200)
    assert (metrics.records, metrics.batches) == (COUNT, 2)
    stateless.assert_copied_once(COUNT)
    assert stateless.run().batches == 0
    stateless.produce(10, start=COUNT)
    assert stateless.run(mode="shared-producer").records == 10
    stateless.assert_copied_once(COUNT + 10)


def test_what_ends_it_between_two_batches_loses_and_repeats_nothing(stateless):
    def stop(report):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stateless.run(max_offsets_per_batch=100, on_batch=stop)
    stateless.run()
    stateless.assert_copied_once(COUNT)


def test_a_commit_whose_answer_is_lost_is_not_done_again(stateless):
    with Proxy(stateless.servers) as proxy:
        cut = proxy.at_answer(ApiKey.END_TXN, then=Then.CUT)
        stateless.run(bootstrap_servers=proxy.bootstrap_servers, max_offsets_per_batch=200)
        assert cut.fired.is_set()
    stateless.assert_copied_once(COUNT)


def test_it_runs_until_it_is_told_to_stop(stateless):
    stop = threading.Event()
    metrics = stateless.run(once=False, stop=stop, on_batch=lambda report: stop.set())
    assert metrics.records == COUNT
    stateless.assert_copied_once(COUNT)


def test_the_first_start_may_be_at_the_end(stateless):
    assert stateless.run(starting_offsets="latest").batches == 0


def test_what_cannot_be_read_is_said(stateless):
    with pytest.raises(ValueError, match="starting_offsets is earliest or latest"):
        stateless.run(starting_offsets="middle")
    with pytest.raises(OptionError, match="cannot be read"):
        stateless.run(from_topic=unique("nowhere"))
