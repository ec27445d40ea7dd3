"""zookeeper.connect, read as Kafka reads it."""

from __future__ import annotations

import pytest

from oncelog.server.zookeeper import Ensemble, parse_ensemble


@pytest.mark.parametrize(
    ("connect", "expected"),
    [
        ("h:2182", Ensemble((("h", 2182),))),
        ("h", Ensemble((("h", 2181),))),
        ("a:1, b:2,c/kafka", Ensemble((("a", 1), ("b", 2), ("c", 2181)), "/kafka")),
        ("h:1/one/two/", Ensemble((("h", 1),), "/one/two")),
        ("h:1/", Ensemble((("h", 1),))),
        ("[::1]:1,[::2]", Ensemble((("::1", 1), ("::2", 2181)))),
    ],
)
def test_servers_and_chroot_are_read(connect, expected):
    assert parse_ensemble(connect) == expected


@pytest.mark.parametrize("connect", ["", "/kafka", ":1", "h:x", "h:0", "h:65536", "h:1/a//b", "h:1/../a"])
def test_what_is_no_address_is_refused_by_name(connect):
    with pytest.raises(ValueError, match=f"^zookeeper.connect={connect} "):
        parse_ensemble(connect)
