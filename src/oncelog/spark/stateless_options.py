"""The options of the source in a pipeline without a checkpoint, which reads each micro-batch as a batch DataFrame."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.spark.options.source_options import parse_options
from oncelog.spark.options.table import OptionError

ANY_INPUT = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "any"}
"""In the place of what a pipeline names by itself, where options are checked before it is known."""
TOPICS = "the topics to read are named by themselves"
COMMITTED = (
    "without a checkpoint a pipeline goes on from its committed offsets, and only its first start is earliest or latest"
)
TRIGGER = "without a checkpoint there is no trigger that could wait"
SAID_OTHERWISE = {
    "kafka.bootstrap.servers": "input and output are on one cluster, which is named by itself",
    "assign": TOPICS,
    "subscribe": TOPICS,
    "subscribepattern": TOPICS,
    "startingoffsets": COMMITTED,
    "startingtimestamp": COMMITTED,
    "startingoffsetsbytimestamp": COMMITTED,
    "startingoffsetsbytimestampstrategy": COMMITTED,
    "endingoffsets": COMMITTED,
    "endingtimestamp": COMMITTED,
    "endingoffsetsbytimestamp": COMMITTED,
    "maxoffsetspertrigger": "max_offsets_per_batch is the limit of a pipeline without a checkpoint",
    "minoffsetspertrigger": TRIGGER,
    "maxtriggerdelay": TRIGGER,
    "includeheaders": "include_headers says it in a pipeline without a checkpoint",
}
"""Options in lower case that the pipeline itself sets for each micro-batch, and why the user does not."""


def check_source_options(options: Mapping[str, str]) -> None:
    """Raise OptionError for an option that is not known, is wrong, or is not for the user to set."""
    for name in options:
        said = SAID_OTHERWISE.get(name.lower())
        if said is not None:
            raise OptionError(f"option {name}: {said}")
    parse_options({**ANY_INPUT, **options}, streaming=False)
