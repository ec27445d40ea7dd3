"""The topics that a subscriber asks for: names that topics can have, or a pattern, and what a pattern matches when nodes differ."""

from __future__ import annotations

import asyncio
import re

import pytest

from oncelog.client import AsyncConsumer, Consumer, SubscriptionPattern
from oncelog.client.groups.settings import Callbacks, GroupProtocol
from oncelog.client.groups.wanted_topics import wanted_topics
from oncelog.wire import ErrorCode
from tests.client.groups.members import Coordinator, Pumped, decode_topics

CLASSIC = GroupProtocol.CLASSIC


@pytest.mark.parametrize(
    ("topics", "pattern", "error", "said"),
    [
        (["orders"], "orders", ValueError, "topics or a pattern, not both"),
        ([], "orders", ValueError, "topics or a pattern, not both"),
        (None, None, ValueError, "at least one topic, or a pattern"),
        ([], None, ValueError, "at least one topic, or a pattern"),
        ("orders", None, TypeError, r"several topics: \['orders'\]"),
        ([""], None, ValueError, "the empty string is not allowed"),
        (["orders", ".."], None, ValueError, "'..' is not allowed"),
        (["."], None, ValueError, "'.' is not allowed"),
        (["a" * 250], None, ValueError, "longer than the max allowed length 249"),
        (["two words"], None, ValueError, "'two words' contains one or more characters"),
        (["größe"], None, ValueError, "other than ASCII"),
        (["orders\n"], None, ValueError, "contains one or more characters"),
        (["^orders.*"], None, ValueError, re.escape("is given as pattern='^orders.*'")),
        ([b"orders"], None, TypeError, "is a str, and b'orders' is a bytes"),
        ([["orders"]], None, TypeError, "is a list"),
        ([None], None, TypeError, "is a str, and None is a NoneType"),
        (None, "", ValueError, "an empty pattern"),
        (None, SubscriptionPattern(""), ValueError, "an empty pattern"),
        (None, "(", ValueError, "'\\(' is no regular expression: missing"),
        (None, b"orders", TypeError, "a re.Pattern of str"),
        (None, re.compile(b"orders"), TypeError, "a re.Pattern of str"),
        (None, SubscriptionPattern("orders"), ValueError, "group_protocol 'consumer'"),
        (None, SubscriptionPattern(re.compile("orders")), TypeError, "a SubscriptionPattern has a str"),
    ],
)
def test_what_is_no_subscription_is_refused_before_anybody_is_asked(topics, pattern, error, said):
    async def subscribe() -> None:
        async with AsyncConsumer("127.0.0.1:1", group_id="g") as consumer:
            await consumer.subscribe(topics, pattern=pattern)

    with Consumer("127.0.0.1:1", group_id="g") as consumer, pytest.raises(error, match=said):
        consumer.subscribe(topics, pattern=pattern)
    with pytest.raises(error, match=said):
        asyncio.run(subscribe())


@pytest.mark.parametrize("name", ["a", "a" * 249, "A-b_c.9", "...", "__consumer_offsets"])
def test_names_that_kafka_takes_are_taken(name):
    assert wanted_topics([name], None, CLASSIC).names == {name}


class Nodes(Coordinator):
    """A cluster whose metadata a test changes. `answers` has what the next requests are told, and the last of them stays."""

    def __init__(self, *answers, node_count=1, **codes) -> None:
        super().__init__(**codes)
        self.answers = list(answers)
        self.node_count = node_count

    def metadata(self, fields, error):
        known = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        asked = None if fields["topics"] is None else [topic["name"] for topic in fields["topics"]]
        return self.described(known, asked, node_count=self.node_count)


def member_of(nodes, pattern="orders.*", *assignors):
    member = Pumped(nodes, *assignors, subscribes=False)
    member.core.subscribe(None, Callbacks(), pattern=pattern)
    return member


def joined_topics(nodes):
    return [decode_topics(fields) for fields in nodes.joined]


def test_member_does_not_join_before_it_has_compared_its_pattern():
    nodes = Nodes(["orders"], Metadata=[None, None, None])
    member = member_of(nodes)
    member.poll()
    member.pump(lambda: nodes.joined)
    assert joined_topics(nodes) == [{"orders"}]


def test_topic_that_one_node_has_not_heard_of_is_kept():
    """A node that is new, or parted from the others, names fewer topics: asked by name, another one knows better."""
    nodes = Nodes(["orders"], node_count=2)
    member = member_of(nodes)
    member.poll()
    member.pump(lambda: nodes.seen.count("Heartbeat") > 2)
    nodes.answers = [[], [], ["orders"]]
    member.transport.now_ms += 300_000
    member.poll()
    for _ in range(8):
        member.poll()
        nodes.seen.clear()
        member.pump(lambda: "Heartbeat" in nodes.seen)
    assert len(nodes.answers) == 1
    assert joined_topics(nodes) == [{"orders"}]


def test_topic_that_every_node_denies_is_given_up():
    nodes = Nodes(["orders", "orders-2"], node_count=2)
    member = member_of(nodes)
    member.poll()
    member.pump(lambda: nodes.seen.count("Heartbeat") > 2)
    member.poll()
    nodes.answers = [["orders"]]
    member.transport.now_ms += 300_000
    member.poll()
    member.pump(lambda: not member.core.member.handover.is_complete)
    member.poll()
    member.pump(lambda: len(nodes.joined) == 2)
    assert joined_topics(nodes) == [{"orders", "orders-2"}, {"orders"}]


def test_topic_without_a_leader_for_a_moment_still_matches():
    nodes = Nodes(["orders"])
    nodes.errors["orders"] = ErrorCode.leader_not_available
    member = member_of(nodes)
    member.poll()
    member.pump(lambda: nodes.joined)
    assert joined_topics(nodes) == [{"orders"}]


def test_member_that_matches_nothing_is_a_member_without_partitions():
    nodes = Nodes(["shipments"])
    member = member_of(nodes)
    member.poll()
    member.pump(lambda: nodes.seen.count("Heartbeat") > 2)
    member.poll()
    assert joined_topics(nodes) == [frozenset()]
    assert member.core.assignment == frozenset()
    assert member.core.metadata().generation_id == 1


def test_member_keeps_what_it_has_until_another_pattern_is_compared():
    nodes = Nodes(["orders"])
    member = member_of(nodes)
    member.poll()
    member.pump(lambda: nodes.seen.count("Heartbeat") > 2)
    member.poll()
    nodes.codes["Metadata"] = [None] * 12
    member.core.subscribe(None, Callbacks(), pattern="ord.*")
    member.pump(lambda: not nodes.codes["Metadata"])
    nodes.seen.clear()
    member.pump(lambda: nodes.seen.count("Heartbeat") > 2)
    assert member.core.member.handover.is_complete
    assert joined_topics(nodes) == [{"orders"}]


def test_pattern_that_is_replaced_while_it_is_compared_does_not_count():
    nodes = Nodes(["orders", "shipments"], Metadata=[None])
    member = member_of(nodes)
    member.poll()
    member.pump(lambda: "Metadata" in nodes.seen)
    member.core.subscribe(None, Callbacks(), pattern="ship.*")
    member.poll()
    member.pump(lambda: nodes.joined)
    assert joined_topics(nodes)[-1] == {"shipments"}
