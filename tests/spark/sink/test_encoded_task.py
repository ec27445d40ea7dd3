"""Tasks of format("oncelog"): what they put aside, and that only what their messages name is sent."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from oncelog.client import TopicPartition
from oncelog.records import Codec, decode_batch
from oncelog.spark.options.table import OptionError
from oncelog.spark.query import QueryError
from oncelog.spark.sink.delivery import DriverSender
from oncelog.spark.sink.encoded_task import (
    EncodingJob,
    MicroBatch,
    StagedDelivery,
    Staging,
    StagingError,
    new_staging,
    staging_root,
)
from oncelog.spark.sink.encoding import RowEncoder, Targets
from oncelog.spark.sink.format_writers import StreamWriter, stream_settings
from oncelog.spark.sink.writable import Limits, Policy, RowError

TARGETS = Targets(tuple(TopicPartition("out", number) for number in range(4)))
LARGE = 200_000


@pytest.fixture
def staging(tmp_path):
    return new_staging(tmp_path, "owner")


def job(staging, policy=Policy.FAIL, **limits):
    return EncodingJob(RowEncoder("out", TARGETS, Codec.NONE, 50_000, 0, Limits(**limits), policy), staging)


def rows(*values):
    return iter([pa.RecordBatch.from_pydict({"key": [value[:1] for value in values], "value": list(values)})])


class Pump(DriverSender):
    """Keeps what would be sent."""

    def send(self, batches, partitions, producing):
        self.sent = [(partitions[batch.target], bytes(batch.data)) for batch in batches]
        return {}


def sent(tasks):
    """The values that are sent, in order."""
    pump = Pump()
    delivery = StagedDelivery([pickle.loads(pickle.dumps(task)) for task in tasks], pump)
    delivery.send(None)
    return [record.value.decode() for _, batch in pump.sent for record in decode_batch(batch)]


def files(staging):
    return sorted(Path(staging.directory).iterdir())


def test_few_rows_travel_in_the_message_and_many_wait_in_a_file(staging):
    few = job(staging).run(rows("a1"), 0, None)
    assert (few.rows.path, files(staging)) == (None, [])
    many = job(staging).run(rows("b" * LARGE), 1, None)
    assert [str(path) for path in files(staging)] == [many.rows.path]
    assert sent([many, few]) == ["a1", "b" * LARGE]


def test_tasks_are_sent_in_their_order_and_keep_the_order_of_their_keys(staging):
    tasks = [job(staging).run(rows(f"a{number}", f"a{number}x"), number, MicroBatch("q", 3)) for number in (2, 0, 1)]
    assert sent(tasks) == ["a0", "a0x", "a1", "a1x", "a2", "a2x"]


def test_what_an_attempt_left_that_did_not_win_is_never_sent(staging):
    """Spark may run a task twice; its message is that of one attempt, and only that names what is sent."""
    lost = job(staging).run(rows("x" * LARGE), 0, None)
    won = job(staging).run(rows("y" * LARGE), 0, None)
    assert len(files(staging)) == 2
    assert sent([won]) == ["y" * LARGE]
    assert lost.rows.path != won.rows.path
    staging.remove()
    assert not Path(staging.directory).exists()


def test_counts_say_what_was_encoded(staging):
    delivery = StagedDelivery([job(staging).run(rows("a1", "a2"), 0, None)], Pump())
    (count,) = delivery.counts.values()
    assert (count.records, count.batches, len(delivery.partitions)) == (2, 1, 1)


def test_a_task_that_cannot_write_its_rows_lets_nothing_be_sent(staging):
    good = job(staging).run(rows("a"), 0, None)
    bad = job(staging, request_bytes_max=200).run(rows("b" * 300), 1, None)
    with pytest.raises(RowError, match=r"max\.request\.size is 200"):
        StagedDelivery([good, bad], Pump())


def test_rows_that_are_left_out_are_counted(staging):
    task = job(staging, Policy.SKIP, request_bytes_max=200).run(rows("a", "b" * 300), 1, None)
    assert StagedDelivery([task], Pump()).unwritable == 1
    assert sent([task]) == ["a"]


def test_a_task_without_a_directory_in_common_with_the_driver_says_what_to_set(tmp_path):
    elsewhere = Staging(str(tmp_path / "of another machine"))
    assert sent([job(elsewhere).run(rows("a"), 0, None)]) == ["a"]
    with pytest.raises(StagingError, match="stagingLocation"):
        job(elsewhere).run(rows("b" * LARGE), 0, None)


def test_rows_that_are_gone_or_changed_are_not_sent(staging):
    gone = job(staging).run(rows("a" * LARGE), 0, None)
    changed = job(staging).run(rows("b" * LARGE), 0, None)
    Path(gone.rows.path).unlink()
    with pytest.raises(StagingError, match="cannot be read any more"):
        sent([gone])
    content = Path(changed.rows.path).read_bytes()
    Path(changed.rows.path).write_bytes(content.replace(b"bbbbbbbb", b"bbbbcbbb", 1))
    with pytest.raises(StagingError, match="changed on disk"):
        sent([changed])
    Path(changed.rows.path).write_bytes(content[: len(content) // 2])
    with pytest.raises(StagingError, match="cannot be read any more"):
        sent([changed])


def test_what_a_killed_driver_left_is_removed_by_the_next_write_of_that_owner(tmp_path):
    killed, other = new_staging(tmp_path, "copy"), new_staging(tmp_path, "other")
    job(killed).run(rows("a" * LARGE), 0, None)
    new_staging(tmp_path, "copy")
    assert not Path(killed.directory).exists()
    assert Path(other.directory).exists()


def test_a_staging_location_is_a_directory():
    assert staging_root("file:///shared/x") == staging_root("/shared/x") == Path("/shared/x")
    with pytest.raises(OptionError, match="not one in s3a:"):
        staging_root("s3a://bucket/x")


def test_a_continuous_trigger_commits_nothing(tmp_path):
    """Spark calls no task's writer then, commits all the same, and goes on where that fails: it must never succeed."""
    arguments = {"topic": "out", "bootstrap_servers": "localhost:9", "checkpoint_location": str(tmp_path)}
    with pytest.raises(QueryError, match="continuous trigger: use processingTime"):
        StreamWriter(stream_settings(arguments), ["value"]).commit([None, None], 0)
