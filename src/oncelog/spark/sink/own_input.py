"""A query that writes to a topic which it reads: it reads what it writes, and has no end."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from oncelog.spark.query import QueryError
from oncelog.spark.sink.settings import SinkSettings


def refuse_own_input(settings: SinkSettings, read: Collection[str], written: Iterable[str | None]) -> None:
    """Raises QueryError where a topic is read and written, unless the user has said that it may be.

    `read` are the topics of the output's cluster that are read.
    """
    both = set(read).intersection(written)
    if settings.write_to_input or not both:
        return
    named = "" if settings.topic is not None else "name the output with topic=..., for the column `topic` says it now; "
    raise QueryError(
        f"topic {min(both)!r} is read and written by this query, which would read what it writes, without end: {named}write to "
        "another topic, or say write_to_input=True (writeToInput) where that is meant"
    )


def named_outputs(settings: SinkSettings) -> tuple[str | None, str | None]:
    """The topics that are written whatever the rows say."""
    return settings.topic, settings.dead_letter_topic
