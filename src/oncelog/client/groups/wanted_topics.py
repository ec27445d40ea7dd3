"""The topics that a member of a group asks for: their names, or a pattern that names are compared with.

The client compares a regular expression of Python's with the names in its metadata, and tells the group of those that match.
A SubscriptionPattern goes to the broker as it is (KIP-848), which compares it with the names of all its topics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from oncelog.client.descriptions import TopicDescription
from oncelog.client.groups.settings import GroupProtocol
from oncelog.wire.topic_names import name_problem


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression in the syntax of RE2 for the broker, of which the names of topics are to match all."""

    pattern: str


TopicPattern = str | re.Pattern[str] | SubscriptionPattern


@dataclass(frozen=True, slots=True)
class WantedTopics:
    """At most one of the three says something; none of them asks for nothing."""

    names: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    broker_regex: str = ""

    def __bool__(self) -> bool:
        return bool(self.names or self.pattern is not None or self.broker_regex)

    def matching(self, topics: Iterable[TopicDescription], *, exclude_internal: bool) -> frozenset[str]:
        """The topics that the client's pattern matches, from the first character of the name to the last."""
        assert self.pattern is not None, "only a pattern of the client's is compared here"
        return frozenset(
            topic.name
            for topic in topics
            if self.pattern.fullmatch(topic.name) and not (topic.is_internal and exclude_internal)
        )


NO_TOPICS = WantedTopics()


def wanted_topics(topics: Iterable[str] | None, pattern: TopicPattern | None, protocol: GroupProtocol) -> WantedTopics:
    """Read what a user gives. Raises TypeError or ValueError for what is neither names that topics can have nor a pattern."""
    if topics is not None and pattern is not None:
        raise ValueError("subscribe takes topics or a pattern, not both")
    if pattern is None:
        return WantedTopics(_names(() if topics is None else topics))
    if isinstance(pattern, SubscriptionPattern):
        regex = _not_empty(pattern.pattern)
        if protocol is GroupProtocol.CLASSIC:
            raise ValueError(
                "a SubscriptionPattern is for group_protocol 'consumer': a str is a pattern for the client"
            )
        return WantedTopics(broker_regex=regex)
    return WantedTopics(pattern=_compiled(pattern))


def _names(topics: Iterable[str]) -> frozenset[str]:
    if isinstance(topics, str):
        raise TypeError(f"subscribe takes several topics: [{topics!r}], where it is one")
    names = tuple(topics)
    if not names:
        raise ValueError("subscribe needs at least one topic, or a pattern: unsubscribe gives up all of them")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"the name of a topic is a str, and {name!r} is a {type(name).__name__}")
        if (problem := name_problem(name)) is not None:
            hint = f"; a regular expression is given as pattern={name!r}" if name.startswith("^") else ""
            raise ValueError(f"{problem}{hint}")
    return frozenset(names)


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    if isinstance(pattern, str):
        try:
            return re.compile(_not_empty(pattern))
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    if not isinstance(pattern, re.Pattern) or not isinstance(pattern.pattern, str):
        raise TypeError(
            f"a pattern is a str, a re.Pattern of str or a SubscriptionPattern, and {pattern!r} is none of them"
        )
    return pattern


def _not_empty(pattern: object) -> str:
    if not isinstance(pattern, str):
        raise TypeError(f"a SubscriptionPattern has a str, and {pattern!r} is a {type(pattern).__name__}")
    if not pattern:
        raise ValueError("an empty pattern matches no topic")
    return pattern
