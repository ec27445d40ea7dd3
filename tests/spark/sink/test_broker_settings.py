"""What a sink may know of its broker's settings."""

from __future__ import annotations

from oncelog.client import BrokerRefused, Client
from oncelog.spark.sink.broker_settings import offsets_retention_ms
from oncelog.wire import ErrorCode

DAY_MS = 24 * 60 * 60 * 1000


def test_how_long_offsets_are_kept_is_the_brokers_setting(log):
    with Client(log.bootstrap_servers) as client:
        assert offsets_retention_ms(client) == 7 * DAY_MS


def test_offsets_are_taken_to_be_kept_for_a_day_where_the_setting_may_not_be_seen(log, monkeypatch):
    def refused(*of, **settings):
        raise BrokerRefused(ErrorCode.cluster_authorization_failed, "describing settings")

    with Client(log.bootstrap_servers) as client:
        monkeypatch.setattr(client, "describe_configs", refused)
        assert offsets_retention_ms(client) == DAY_MS
