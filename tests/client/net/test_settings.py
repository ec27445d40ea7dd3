from __future__ import annotations

import pytest

from oncelog.client.net.settings import parse_addresses


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a:1, b:2 ,", [("a", 1), ("b", 2)]),
        ("broker", [("broker", 9092)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
    ],
)
def test_bootstrap_servers_are_hosts_with_ports(text, addresses):
    assert list(parse_addresses(text)) == addresses


@pytest.mark.parametrize("text", ["", " , ", "host:", "host:port", "host:0", "host:65536", ":9092"])
def test_anything_else_is_refused_with_its_text(text):
    with pytest.raises(ValueError, match=r"bootstrap server|host and a port"):
        parse_addresses(text)
