"""Which topics or partitions a source reads, as the options say it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from oncelog.client.values import TopicPartition
from oncelog.spark.options.table import OptionError
from oncelog.spark.options.topic_pattern import PatternError, compiled
from oncelog.spark.options.values import OptionValues


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Which partitions to read: exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def has(self, partition: TopicPartition) -> bool:
        """Whether a partition is meant, there or not."""
        if self.pattern is not None:
            return compiled(self.pattern).search(partition.topic) is not None
        return partition.topic in self.topics or partition in self.partitions

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"pattern {self.pattern!r}"
        return ", ".join(self.topics) or ", ".join(str(partition) for partition in self.partitions)


def subscription(options: OptionValues) -> TopicSelection:
    """What `assign`, `subscribe` or `subscribePattern` says. Raises OptionError."""
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
    """A partition, which JSON may write as a fraction or in quotes, too: Spark takes neither."""
    if not isinstance(item, int) or isinstance(item, bool):
        raise ValueError(item)
    return item


def _pattern(text: str) -> str:
    try:
        compiled(text)
    except PatternError as error:
        raise OptionError(f"option subscribePattern: {error}") from None
    return text
