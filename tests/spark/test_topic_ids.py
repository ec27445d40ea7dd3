"""A topic is told from another one of its name."""

from __future__ import annotations

from uuid import uuid4

import pytest

from oncelog.client import OffsetAndMetadata, TopicPartition
from oncelog.spark.sink import fence
from oncelog.spark.source.errors import DataLossError
from oncelog.spark.topic_ids import TopicIds

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
OLD, NEW = uuid4(), uuid4()


def committed(partitions, topic_id):
    record = fence.FenceRecord("stateless", 4, "end", 7)
    ids = {} if topic_id is None else {item.topic: topic_id for item in partitions}
    return fence.fence_metadata(record, dict.fromkeys(partitions, 9), topic_ids=ids)


def test_topic_with_the_id_of_the_committed_offsets_is_read():
    ids = TopicIds("group", committed([A0, A1], OLD))
    ids.check("a", OLD)
    assert ids.known() == {"a": OLD}


@pytest.mark.parametrize(
    "entries",
    [committed([A0], OLD), {**committed([A0], OLD), **committed([A1], NEW)}],
    ids=["all of another", "some of another"],
)
def test_topic_with_another_id_than_committed_offsets_have_is_refused(entries):
    with pytest.raises(DataLossError, match=r"topic a was deleted and made anew .*reset-offsets group --topic a"):
        TopicIds("group", entries).check("a", NEW)


@pytest.mark.parametrize("entries", [committed([A0], None), {A0: OffsetAndMetadata(9)}, {}])
def test_offsets_without_an_id_are_of_the_topic_that_is_there(entries):
    ids = TopicIds("group", entries)
    ids.check("a", OLD)
    ids.check("b", NEW)
    assert ids.known() == {"a": OLD, "b": NEW}
    with pytest.raises(DataLossError):
        ids.check("a", NEW)


def test_broker_that_gives_topics_no_ids_tells_nothing():
    ids = TopicIds("group", committed([B0], OLD))
    ids.check("b", None)
    assert ids.known() == {"b": OLD}
