"""The broker: routes requests, parks answers, owns the partitions and the coordinators."""

from oncelog.broker.broker import BrokerCore, Environment, StartReport
from oncelog.broker.config.configuration import Settings, log_directories
from oncelog.broker.config.listeners import advertised_endpoint, listening_endpoint
from oncelog.broker.config.properties import Configuration, inert_remarks, read_configuration
from oncelog.broker.config.setting import SettingError
from oncelog.broker.readiness import Readiness

__all__ = [
    "BrokerCore",
    "Configuration",
    "Environment",
    "Readiness",
    "SettingError",
    "Settings",
    "StartReport",
    "advertised_endpoint",
    "inert_remarks",
    "listening_endpoint",
    "log_directories",
    "read_configuration",
]
