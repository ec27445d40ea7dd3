"""The broker: routes requests, parks answers, owns the partitions and the coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.lazy_names import imported

if TYPE_CHECKING:
    from oncelog.broker.broker import BrokerCore
    from oncelog.broker.config.configuration import Settings, log_directories
    from oncelog.broker.config.listener_security import (
        ClientAuth,
        ListenerSecurity,
        check_names_of_listeners,
    )
    from oncelog.broker.config.listeners import (
        Endpoint,
        advertised_endpoints,
        check_inter_broker_listener,
        inter_broker_listener,
        listening_endpoints,
    )
    from oncelog.broker.config.properties import Configuration, inert_remarks, read_configuration
    from oncelog.broker.config.secured_listeners import security_of_listener, security_towards_listener
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

# A command that reads a file of settings needs nothing else of the broker, which is slow to import.
_HOMES = {
    "BrokerCore": "oncelog.broker.broker",
    "ClientAuth": "oncelog.broker.config.listener_security",
    "Configuration": "oncelog.broker.config.properties",
    "Endpoint": "oncelog.broker.config.listeners",
    "Environment": "oncelog.broker.starting",
    "ListenerSecurity": "oncelog.broker.config.listener_security",
    "Readiness": "oncelog.broker.readiness",
    "SettingError": "oncelog.broker.config.setting",
    "Settings": "oncelog.broker.config.configuration",
    "StartReport": "oncelog.broker.starting",
    "advertised_endpoints": "oncelog.broker.config.listeners",
    "check_inter_broker_listener": "oncelog.broker.config.listeners",
    "check_names_of_listeners": "oncelog.broker.config.listener_security",
    "inert_remarks": "oncelog.broker.config.properties",
    "inter_broker_listener": "oncelog.broker.config.listeners",
    "listening_endpoints": "oncelog.broker.config.listeners",
    "log_directories": "oncelog.broker.config.configuration",
    "read_configuration": "oncelog.broker.config.properties",
    "security_of_listener": "oncelog.broker.config.secured_listeners",
    "security_towards_listener": "oncelog.broker.config.secured_listeners",
}


def __getattr__(name: str) -> object:
    return imported(__name__, _HOMES, name)
