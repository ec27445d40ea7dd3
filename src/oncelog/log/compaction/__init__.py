"""Compaction: of the records of a key only the last one stays. The rules are those of Kafka's log cleaner."""

from oncelog.log.compaction.batch_filter import last_records_of
from oncelog.log.compaction.cleaning import Cleaning, CleaningSource, CleaningSync, CleaningWork, UncleanableError
from oncelog.log.compaction.dirt import Dirt, dirt_of
from oncelog.log.compaction.offset_map import OffsetMap
from oncelog.log.compaction.replacement import finish_replacements, put_in_place

__all__ = [
    "Cleaning",
    "CleaningSource",
    "CleaningSync",
    "CleaningWork",
    "Dirt",
    "OffsetMap",
    "UncleanableError",
    "dirt_of",
    "finish_replacements",
    "last_records_of",
    "put_in_place",
]
