from __future__ import annotations

import pytest

from oncelog.client import Client
from oncelog.client.net.settings import parse_addresses
from oncelog.client.security import PLAINTEXT


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a:1, b:2 ,", [("a", 1), ("b", 2)]),
        ("broker", [("broker", 9092)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
        ("PLAINTEXT://a:1", [("a", 1)]),
        ("sasl_ssl://a:1,b:2,SASL_SSL://[::1]", [("a", 1), ("b", 2), ("::1", 9092)]),
    ],
)
def test_bootstrap_servers_are_hosts_with_ports(text, addresses):
    assert list(parse_addresses(text)) == addresses


@pytest.mark.parametrize(
    "text",
    [
        "",
        " , ",
        "host:",
        "host:port",
        "host:0",
        "host:65536",
        ":9092",
        "a:1;b:2",
        "a:1 b:2",
        "a;b",
        "user@a:1",
        "SSL://",
        "SSL://:1",
    ],
)
def test_anything_else_is_refused_with_its_text(text):
    with pytest.raises(ValueError, match=r"bootstrap server|host and a port"):
        parse_addresses(text)


def test_servers_with_semicolons_are_told_what_stands_between_them():
    with pytest.raises(ValueError, match="'a:1;b:2' is not a host and a port; several of them have commas in between"):
        parse_addresses("a:1;b:2")


def test_protocol_that_there_is_not_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match="'http://a:1' begins with http://, and a protocol is one of PLAINTEXT, SSL"):
        parse_addresses("http://a:1")


def test_protocol_of_an_address_is_that_of_the_client():
    """librdkafka: "ultimately the value of the `security.protocol` config property decides what brokers are allowed"."""
    assert list(parse_addresses("PLAINTEXT://a:1", PLAINTEXT)) == [("a", 1)]
    with pytest.raises(ValueError, match=r"'SASL_SSL://a:1' names SASL_SSL, and security.protocol is PLAINTEXT"):
        Client("SASL_SSL://a:1")
