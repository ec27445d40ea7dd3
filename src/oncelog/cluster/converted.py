"""What becomes of log directories that are converted, or why they are not."""

from __future__ import annotations

from dataclasses import dataclass


class ConversionRefusedError(Exception):
    """One sentence: what stands in the way, and what to do."""


@dataclass(frozen=True, slots=True)
class Converted:
    """Whose the directories are, and what is in them. `is_news` is false where an earlier attempt had done all of it."""

    cluster_id: str
    broker_id: int
    topic_count: int
    partition_count: int
    is_news: bool
