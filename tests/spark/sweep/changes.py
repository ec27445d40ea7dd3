"""What may become of a query's topics while it is down, before its first micro-batch is done, and what has to come of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from harness.known_topics import wait_until_known
from harness.processes import BrokerProcess
from harness.waiting import until
from oncelog.client import Client, TopicPartition
from tests.spark import topics
from tests.spark.sweep.frame import Records
from tests.spark.sweep.kinds import RECORDS, A

ALL: Records = Counter(RECORDS)
MORE_RECORDS = [(f"k{number}", f"more-{number}") for number in range(len(RECORDS) + 5)]
"""More than were there before, so that no end tells a topic that was made anew from the one before."""
MORE: Records = Counter(MORE_RECORDS)
NOTHING: Records = Counter()
PARTITIONS = 2
DELETED = 2
"""How many records of partition 0 are deleted."""

EARLIEST = {"subscribe": A, "startingOffsets": "earliest"}
PATTERN = {"subscribePattern": f"^{A}.*", "startingOffsets": "earliest"}
OFFSETS = {"subscribe": A, "startingOffsets": f'{{"{A}": {{"0": 0, "1": -2}}}}'}
LATEST = {"subscribe": A, "startingOffsets": "latest"}
TIME_TO_COME = {
    "subscribe": A,
    "startingTimestamp": "99999999999999",
    "startingOffsetsByTimestampStrategy": "latest",
}
TIME = {"subscribe": A, "startingTimestamp": "1"}


@dataclass(frozen=True)
class Place:
    """A broker, and the records of partition 0 that were deleted before the crash or after it."""

    node: BrokerProcess
    first_records: list[tuple[str, str]]

    @property
    def servers(self) -> str:
        return self.node.bootstrap_servers

    @property
    def left(self) -> Records:
        return ALL - Counter(self.first_records)


@dataclass(frozen=True)
class Expected:
    """What the next start comes to: `records` in the output, or a refusal in these words.

    None stands for one that must not be. `then` is what is in the output in the end, once failOnDataLoss=false was said, by what
    was there at the refusal; `repaired` is done before that. Without it nothing may be written.
    """

    records: Records | None = None
    refusal: str | None = None
    then: Callable[[Records], Records] | None = None
    repaired: Callable[[Place], None] = lambda place: None


@dataclass(frozen=True)
class Change:
    """`expected` is asked with whether the first micro-batch was planned when the driver died."""

    name: str
    start: dict[str, str]
    make: Callable[[Place], None]
    expected: Callable[[Place, bool], Expected]


def add_partition(place: Place) -> None:
    with Client(place.servers) as client:
        client.create_partitions({A: PARTITIONS + 1})
    wait_until_known(place.servers, A, PARTITIONS + 1)
    topics.produce(place.servers, A, MORE_RECORDS)


def add_topic(place: Place) -> None:
    topics.create(place.servers, f"{A}-more", 1)
    topics.produce(place.servers, f"{A}-more", MORE_RECORDS)


def add_records(place: Place) -> None:
    topics.produce(place.servers, A, MORE_RECORDS)


def delete_records(place: Place) -> None:
    with Client(place.servers) as client:
        client.delete_records({TopicPartition(A, 0): DELETED})


def delete_topic(place: Place) -> None:
    with Client(place.servers) as client:
        client.delete_topics([A])
        until(lambda: client.metadata([A])[A].error.name == "unknown_topic_or_partition")


def make_topic(place: Place) -> None:
    topics.create(place.servers, A, PARTITIONS)
    topics.produce(place.servers, A, MORE_RECORDS)


def make_topic_anew(place: Place) -> None:
    delete_topic(place)
    make_topic(place)


def stop_node(place: Place) -> None:
    place.node.kill()


def start_node(place: Place) -> None:
    place.node.start()


def _both(place: Place, is_planned: bool) -> Expected:
    return Expected(ALL + MORE)


def _both_or_unnamed(place: Place, is_planned: bool) -> Expected:
    """As with Spark's own source, offsets for a new query name every partition."""
    return Expected(ALL + MORE) if is_planned else Expected(None, "has to name every partition: a-2 is missing")


def _only_new(place: Place, is_planned: bool) -> Expected:
    """A first start that is planned after them begins at their end."""
    return Expected(MORE if is_planned else NOTHING)


def _deleted(place: Place, is_planned: bool) -> Expected:
    """Where it is not refused, all of the deleted records are in the output: they were committed before."""
    if not is_planned:
        return Expected(place.left)
    return Expected(ALL, "no longer has offset 0", lambda found: place.left if not found else ALL)


def _gone(place: Place, is_planned: bool) -> Expected:
    if not is_planned:
        return Expected(None, f"topic '{A}' does not exist", lambda found: MORE, make_topic)
    return Expected(None, "is gone", lambda found: found)


def _anew(place: Place, is_planned: bool) -> Expected:
    if not is_planned:
        return Expected(MORE)
    return Expected(None, f"topic {A} was deleted and made anew", lambda found: found + MORE)


def _away(place: Place, is_planned: bool) -> Expected:
    return Expected(None, "gave no answer", lambda found: ALL, start_node)


CHANGES = (
    Change("a partition added", EARLIEST, add_partition, _both),
    Change("a partition added", OFFSETS, add_partition, _both_or_unnamed),
    Change("a partition added", PATTERN, add_partition, _both),
    Change("a topic added", PATTERN, add_topic, _both),
    *(Change("records added", start, add_records, _only_new) for start in (LATEST, TIME_TO_COME)),
    *(Change("records deleted", start, delete_records, _deleted) for start in (EARLIEST, TIME, PATTERN)),
    *(Change("the topic deleted", start, delete_topic, _gone) for start in (EARLIEST, OFFSETS)),
    *(Change("the topic made anew", start, make_topic_anew, _anew) for start in (EARLIEST, PATTERN)),
    Change("the cluster away", EARLIEST, stop_node, _away),
)
