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
