"""The broker: routes requests, parks answers, owns the partitions and the coordinators."""

from oncelog.broker.broker import Broker, Environment, StartReport
from oncelog.broker.setting import SettingError

__all__ = ["Broker", "Environment", "SettingError", "StartReport"]
