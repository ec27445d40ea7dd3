"""The settings of a member of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

import oncelog
from oncelog.broker.config import cluster_settings
from oncelog.broker.config.cluster_settings import CLUSTER_SETTINGS, RACK_AWARE_SELECTOR
from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.setting import SettingError

SOURCE = Path(oncelog.__file__).parent


@pytest.mark.parametrize("name", [setting.name for setting in CLUSTER_SETTINGS])
def test_every_setting_is_read(name):
    where = Path(cluster_settings.__file__)
    assert any(f'"{name}"' in path.read_text() for path in SOURCE.rglob("*.py") if path != where)


def test_selector_that_is_not_known_is_refused():
    member = {"zookeeper.connect": "here", "node.id": "1"}
    assert Settings(member).value("replica.selector.class") is None
    assert Settings(member | {"replica.selector.class": RACK_AWARE_SELECTOR}).value("replica.selector.class")
    with pytest.raises(SettingError, match=r"replica\.selector\.class"):
        Settings(member | {"replica.selector.class": "com.example.Nearest"})


@pytest.mark.parametrize(
    "text", ["9404", "localhost", ":9404", "localhost:", "localhost:65536", "localhost:-1", "localhost:x"]
)
def test_metrics_have_a_whole_address(text: str) -> None:
    cluster = {"zookeeper.connect": "here", "broker.id": "1"}
    with pytest.raises(
        SettingError, match=r"Invalid value .* for configuration prometheus\.listener: it is no address"
    ):
        Settings(cluster | {"prometheus.listener": text})
    assert Settings(cluster | {"prometheus.listener": "[::1]:9404"}).value("prometheus.listener") == "[::1]:9404"


def test_broker_that_is_alone_has_no_metrics() -> None:
    with pytest.raises(SettingError, match=r"prometheus\.listener is not allowed without zookeeper\.connect"):
        Settings({"prometheus.listener": "127.0.0.1:9404"})
