"""Subscriptions by a pattern: the client compares a regular expression with all topics, or has the broker do it (KIP-848)."""

from __future__ import annotations

import re
import time

import pytest

from harness.names import unique
from harness.waiting import until
from oncelog.client import (
    BrokerRefused,
    Client,
    ClientError,
    Consumer,
    NewTopic,
    Producer,
    SubscriptionPattern,
    TopicPartition,
)
from oncelog.wire import ErrorCode
from tests.client.subscribing import KIP_848, QUICK, poll_until

pytestmark = pytest.mark.drawn(4)

CLASSIC = {**QUICK, "assignors": ["range"]}
COOPERATIVE = {**QUICK, "assignors": ["cooperative-sticky"]}
WAYS = pytest.mark.parametrize(
    ("options", "pattern_of"),
    [
        pytest.param(CLASSIC, str, id="classic"),
        pytest.param(COOPERATIVE, re.compile, id="cooperative"),
        pytest.param(KIP_848, str, marks=pytest.mark.one_broker, id="consumer"),
        # The broker looks at its topics again after ten seconds.
        pytest.param(KIP_848, SubscriptionPattern, marks=[pytest.mark.one_broker, pytest.mark.drawn(6)], id="broker"),
    ],
)
COMPARED_HERE = pytest.mark.parametrize("options", [CLASSIC, KIP_848], ids=["classic", "consumer"])


@pytest.fixture
def name():
    """The beginning of the names of this test's topics."""
    return unique("pattern")


def make(log, *topics):
    with Client(log.bootstrap_servers) as client:
        client.create_topics([NewTopic(topic, 1) for topic in topics])


def delete(log, topic):
    with Client(log.bootstrap_servers) as client:
        client.delete_topics([topic])
        until(lambda: client.metadata([topic])[topic].error is ErrorCode.unknown_topic_or_partition)


def write(log, *topics, value=b"0"):
    with Producer(log.bootstrap_servers) as producer:
        for topic in topics:
            producer.send(topic, value)


def has(consumer, *topics):
    return consumer.assignment == {TopicPartition(topic, 0) for topic in topics}


@WAYS
def test_every_topic_whose_whole_name_matches_is_read(log, face, name, options, pattern_of):
    a, b, longer, other = f"{name}.a", f"{name}.b", f"{name}.a-longer", f"not-{name}.a"
    make(log, a, b, longer, other)
    write(log, a, b, longer, other)
    with face.consumer(log.bootstrap_servers, group_id=name, **options) as consumer:
        consumer.subscribe(pattern=pattern_of(rf"{name}\.[ab]"))
        assert len(poll_until(lambda values: len(values) == 2, consumer)) == 2
        assert has(consumer, a, b)


@pytest.mark.on_a_cluster
@WAYS
def test_topic_that_is_made_later_is_read_also_where_none_was_there(log, name, options, pattern_of):
    with Consumer(log.bootstrap_servers, group_id=name, **options) as consumer:
        consumer.subscribe(pattern=pattern_of(f"{name}.*"))
        assert consumer.poll(500) == []
        until(lambda: consumer.poll(50) == [] and is_member(consumer))
        assert consumer.assignment == frozenset()
        make(log, f"{name}-first", f"other-{name}")
        write(log, f"{name}-first")
        poll_until(lambda values: len(values) == 1, consumer)
        make(log, f"{name}-second")
        poll_until(lambda _: has(consumer, f"{name}-first", f"{name}-second"), consumer)


def is_member(consumer):
    try:
        consumer.group_metadata()
    except ClientError:
        return False
    return True


@WAYS
def test_members_with_different_patterns_share_what_both_match(log, name, options, pattern_of):
    first, both, second = topics = [f"{name}-{letter}" for letter in "abc"]
    make(log, *topics)
    with (
        Consumer(log.bootstrap_servers, group_id=name, **options) as one,
        Consumer(log.bootstrap_servers, group_id=name, **options) as other,
    ):
        one.subscribe(pattern=pattern_of(f"{name}-[ab]"))
        other.subscribe(pattern=pattern_of(f"{name}-[bc]"))
        everything = {TopicPartition(topic, 0) for topic in topics}

        def is_shared(_):
            held = [consumer.assignment for consumer in (one, other)]
            return held[0] | held[1] == everything and not held[0] & held[1]

        poll_until(is_shared, one, other)
        assert TopicPartition(first, 0) in one.assignment
        assert TopicPartition(second, 0) in other.assignment
        other.unsubscribe()
        poll_until(lambda _: has(one, first, both), one)


@pytest.mark.on_a_cluster
@WAYS
def test_topic_that_is_deleted_and_made_again_is_read_from_its_beginning(log, name, options, pattern_of):
    stays, remade = f"{name}-stays", f"{name}-remade"
    make(log, stays, remade)
    write(log, remade)
    with Consumer(log.bootstrap_servers, group_id=name, **options) as consumer:
        consumer.subscribe(pattern=pattern_of(f"{name}-.*"))
        poll_until(lambda values: len(values) == 1, consumer)
        delete(log, remade)
        until(lambda: quiet_poll(consumer) == [] and has(consumer, stays))
        make(log, remade)
        write(log, remade)
        until(lambda: [record.topic for record in quiet_poll(consumer)] == [remade])
        assert has(consumer, stays, remade)


@WAYS
def test_topic_that_is_another_one_at_the_next_look_is_read_from_its_beginning(log, name, options, pattern_of):
    make(log, name)
    write(log, name)
    with Consumer(log.bootstrap_servers, group_id=name, **options) as consumer:
        consumer.subscribe(pattern=pattern_of(name))
        poll_until(lambda values: len(values) == 1, consumer)
        delete(log, name)
        make(log, name)
        for value in (b"1", b"2"):
            write(log, name, value=value)
            until(lambda value=value: value in [record.value for record in quiet_poll(consumer)])
        assert has(consumer, name)


def quiet_poll(consumer):
    """Read on, whatever is said of a topic that is gone or not known everywhere."""
    try:
        return consumer.poll(100)
    except ClientError:
        return []


@COMPARED_HERE
def test_internal_topics_match_only_where_that_is_asked_for(log, name, options):
    """Kafka's exclude.internal.topics: "Whether internal topics matching a subscribed pattern should be excluded"."""
    make(log, name)
    with (
        Consumer(log.bootstrap_servers, group_id=name, **options) as plain,
        Consumer(log.bootstrap_servers, group_id=f"{name}-all", exclude_internal_topics=False, **options) as everything,
    ):
        plain.subscribe(pattern=f"{name}|__consumer_offsets")
        everything.subscribe(pattern=f"{name}|__consumer_offsets")
        poll_until(lambda _: plain.assignment, plain)
        assert has(plain, name)
        until(lambda: quiet_poll(everything) is not None and everything.assignment)
        assert {item.topic for item in everything.assignment} == {name, "__consumer_offsets"}


@WAYS
def test_subscriber_goes_from_topics_to_a_pattern_and_back(log, face, name, options, pattern_of):
    a, b = f"{name}-a", f"{name}-b"
    make(log, a, b)
    with face.consumer(log.bootstrap_servers, group_id=name, **options) as consumer:
        consumer.subscribe([a])
        poll_until(lambda _: has(consumer, a), consumer)
        consumer.subscribe(pattern=pattern_of(f"{name}-.*"))
        poll_until(lambda _: has(consumer, a, b), consumer)
        consumer.subscribe(pattern=pattern_of(f"{name}-[b]"))
        poll_until(lambda _: has(consumer, b), consumer)
        consumer.subscribe([a])
        poll_until(lambda _: has(consumer, a), consumer)
        consumer.unsubscribe()
        assert consumer.assignment == frozenset()
        consumer.subscribe(pattern=pattern_of(f"{name}-.*"))
        poll_until(lambda _: has(consumer, a, b), consumer)


def test_broker_refuses_what_is_no_pattern_of_re2(log, name):
    with Consumer(log.bootstrap_servers, group_id=name, **KIP_848) as consumer:
        consumer.subscribe(pattern=SubscriptionPattern(f"(?={name})"))
        with pytest.raises(BrokerRefused) as refused:
            poll_until(lambda _: False, consumer)
        assert refused.value.error is ErrorCode.invalid_regular_expression


@pytest.mark.drawn(6)
def test_pattern_that_python_would_take_for_ever_with_keeps_no_broker(log):
    """RE2 compares in linear time, whatever the pattern is."""
    topic = unique("a" * 200)
    make(log, topic)
    with Consumer(log.bootstrap_servers, group_id=topic, **KIP_848) as consumer:
        consumer.subscribe(pattern=SubscriptionPattern("(a|a)*(a*)*b|" + topic))
        started = time.monotonic()
        poll_until(lambda _: has(consumer, topic), consumer)
        with Client(log.bootstrap_servers) as client:
            client.metadata([topic])
        assert time.monotonic() - started < 20


def test_internal_topics_match_where_the_broker_compares(log):
    """exclude.internal.topics is the client's setting, and the broker is not told of it."""
    group = unique("pattern")
    with Consumer(log.bootstrap_servers, group_id=group, **KIP_848) as consumer:
        consumer.subscribe(pattern=SubscriptionPattern("__consumer_offset[s]"))
        until(lambda: quiet_poll(consumer) is not None and consumer.assignment)
        assert {item.topic for item in consumer.assignment} == {"__consumer_offsets"}
