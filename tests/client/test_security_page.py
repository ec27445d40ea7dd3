"""docs/security.md: its block runs as it is printed, and what it says of options and settings is what the code has."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from harness.secured_kafka import PASSWORD, Listener
from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.listener_security import ClientAuth
from oncelog.broker.config.listeners import inter_broker_listener, listening_endpoints
from oncelog.broker.config.properties import parse_properties, read_configuration
from oncelog.broker.config.secured_listeners import security_of_listener, security_towards_listener
from oncelog.broker.config.security_settings import LISTENER_SETTINGS
from oncelog.broker.config.setting import SettingError
from oncelog.broker.config.settings import BROKER_SETTINGS
from oncelog.client.security import read_security
from oncelog.client.security.names import SUPPORTED
from oncelog.security.values import PlainLogin

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
OF_CLIENTS, _, OF_BROKERS = PAGE.partition("## The broker's listeners\n")
BROKER_BLOCK = re.compile(r"^```text\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
NAMES = re.compile(r"`((?:sasl|ssl|security|enable|https)\.[a-z.]+[a-z])`")
BLOCK = re.compile(r"^```python\n(.*?)^```\n```text\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
PROPERTIES = re.compile(r"^```properties\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


@pytest.mark.jvm
def test_block_prints_what_the_page_says(secured_kafka):
    ((code, expected),) = BLOCK.findall(PAGE)
    names = {
        "bootstrap_servers": secured_kafka.address(Listener.SASL),
        "password": PASSWORD,
        "authority_file": str(secured_kafka.authority.file),
    }
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(code, names)
    assert printed.getvalue() == expected


def test_properties_mean_what_the_block_means():
    (text,) = PROPERTIES.findall(PAGE)
    named = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "...",
    }
    assert read_security(parse_properties(text)).login == read_security(named).login


def test_options_that_the_page_names_are_supported():
    named = set(NAMES.findall(OF_CLIENTS))
    assert len(named) > 25
    assert named <= SUPPORTED


def test_settings_of_the_broker_that_the_page_names_are_there():
    named = set(NAMES.findall(OF_BROKERS.partition("## Rights")[0]))
    assert len(named) > 10
    refused = {"ssl.cipher.suites"}
    own = {name for name in LISTENER_SETTINGS if name.endswith("sasl.jaas.config")} | {"sasl.jaas.config"}
    assert named - refused - own <= BROKER_SETTINGS.keys()
    for name in refused:
        with pytest.raises(SettingError):
            read_configuration(f"{name}=x")


def test_blocks_of_the_broker_are_what_a_broker_takes():
    listeners, between = BROKER_BLOCK.findall(OF_BROKERS)[:2]
    settings = Settings(read_configuration(listeners).settings)
    of_clients, inside = (security_of_listener(settings, one) for one in listening_endpoints(settings))
    assert (of_clients.mechanisms, set(of_clients.plain_users)) == (("PLAIN",), {"alice", "bob"})
    assert (inside.mechanisms, inside.client_auth) == ((), ClientAuth.REQUIRED)
    both = read_configuration(listeners + between).settings | {"zookeeper.connect": "z:1", "broker.id": "1"}
    settings = Settings(both)
    assert inter_broker_listener(settings) == "INSIDE"
    inside = listening_endpoints(settings)[1]
    login = security_towards_listener(settings, inside).login
    assert isinstance(login, PlainLogin)
    assert login.username in security_of_listener(settings, inside).plain_users


def test_links_lead_to_files():
    for target in re.findall(r"\]\(([^)#:]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
