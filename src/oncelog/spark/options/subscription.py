"""The topics or partitions that a source reads, from the options."""

from __future__ import annotations

import json
from dataclasses import dataclass

from oncelog.client.values import TopicPartition
from oncelog.spark.options.table import OptionError, OptionValues
from oncelog.spark.options.topic_pattern import PatternError, compiled


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """The partitions to read: exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def has(self, partition: TopicPartition) -> bool:
        """True if a partition is selected, whether it exists or not."""
        if self.pattern is not None:
            return compiled(self.pattern).search(partition.topic) is not None
        return partition.topic in self.topics or partition in self.partitions

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"pattern {self.pattern!r}"
        return ", ".join(self.topics) or ", ".join(str(partition) for partition in self.partitions)


def subscription(options: OptionValues) -> TopicSelection:
    """Read `assign`, `subscribe` or `subscribePattern`. Raises OptionError."""
    subscribed = {
        name: text
        for name in ("assign", "subscribe", "subscribePattern")
        if (text := options.optional(name, str)) is not None
    }
    if len(subscribed) != 1:
        raise OptionError("exactly one of the options assign, subscribe and subscribePattern is needed")
    ((name, text),) = subscribed.items()
    if name == "assign":
        return TopicSelection(partitions=_assigned(text))
    if name == "subscribePattern":
        return TopicSelection(pattern=_pattern(text))
    topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
    if not topics:
        raise OptionError("option subscribe names no topic")
    return TopicSelection(topics=topics)


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    try:
        tree = json.loads(text)
        assigned = tuple(TopicPartition(topic, _number(item)) for topic, items in tree.items() for item in items)
    except (ValueError, AttributeError, TypeError):
        raise OptionError('option assign has to be JSON such as {"topic": [0, 1]}') from None
    if not assigned:
        raise OptionError("option assign names no partition")
    return assigned


def _number(item: object) -> int:
    """Read a partition. Spark takes no fraction and no text either."""
    if not isinstance(item, int) or isinstance(item, bool):
        raise ValueError(item)
    return item


def _pattern(text: str) -> str:
    try:
        compiled(text)
    except PatternError as error:
        raise OptionError(f"option subscribePattern: {error}") from None
    return text
