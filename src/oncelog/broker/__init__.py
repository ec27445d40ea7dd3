"""The broker: routes requests, parks answers, owns the partitions and the coordinators."""

from oncelog.broker.broker import BrokerCore
from oncelog.broker.config.configuration import Settings, log_directories
from oncelog.broker.config.listener_security import (
    ClientAuth,
    ListenerSecurity,
    check_names_of_listeners,
    security_of_listener,
    security_towards_listener,
)
from oncelog.broker.config.listeners import (
    Endpoint,
    advertised_endpoints,
    check_inter_broker_listener,
    inter_broker_listener,
    listening_endpoints,
)
from oncelog.broker.config.properties import Configuration, inert_remarks, read_configuration
from oncelog.broker.config.setting import SettingError
from oncelog.broker.readiness import Readiness
from oncelog.broker.starting import Environment, StartReport

__all__ = [
    "BrokerCore",
    "ClientAuth",
    "Configuration",
    "Endpoint",
    "Environment",
    "ListenerSecurity",
    "Readiness",
    "SettingError",
    "Settings",
    "StartReport",
    "advertised_endpoints",
    "check_inter_broker_listener",
    "check_names_of_listeners",
    "inert_remarks",
    "inter_broker_listener",
    "listening_endpoints",
    "log_directories",
    "read_configuration",
    "security_of_listener",
    "security_towards_listener",
]
