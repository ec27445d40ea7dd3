"""What consumers tell each other, byte for byte where it matters to others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.groups.subscription import (
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from oncelog.client.values import TopicPartition
from oncelog.wire import WireError

names = st.text(min_size=1, max_size=5)
partitions = st.frozensets(st.builds(TopicPartition, names, st.integers(0, 100)))


@given(topics=st.frozensets(names), owned=partitions, generation=st.integers(-1, 2**31 - 1))
def test_subscription_is_read_as_it_was_written(topics, owned, generation):
    subscription = MemberSubscription(topics, owned, generation, "instance")
    assert decode_subscription(encode_subscription(subscription), "instance") == subscription


@given(partitions)
def test_assignment_is_read_as_it_was_written(assigned):
    assert decode_assignment(encode_assignment(assigned)) == assigned


def test_subscription_has_the_layout_of_version_3():
    """int16 version, topics, user data, owned partitions (v1), generation id (v2), rack id (v3)."""
    subscription = MemberSubscription(frozenset("t"), frozenset({TopicPartition("t", 2)}), 7)
    topics, owned = "00000001" + "000174", "00000001" + "000174" + "00000001" + "00000002"
    assert encode_subscription(subscription).hex() == "0003" + topics + "ffffffff" + owned + "00000007" + "ffff"


def test_versions_of_others_are_read_as_far_as_they_are_known():
    oldest = bytes.fromhex("0000" + "00000001" + "000174" + "ffffffff")
    assert decode_subscription(oldest, None) == MemberSubscription(frozenset("t"))
    newer = b"\x00\x09" + encode_subscription(MemberSubscription(frozenset("t")))[2:] + b"more"
    assert decode_subscription(newer, None) == MemberSubscription(frozenset("t"))


def test_no_bytes_are_no_partitions_and_others_are_refused():
    assert decode_assignment(b"") == frozenset()
    for broken in (b"\x00", b"\x00\x01\x00\x00\x00\x09", b"\xff\xff\x00"):
        with pytest.raises(WireError):
            decode_assignment(broken)
        with pytest.raises(WireError):
            decode_subscription(broken, None)
