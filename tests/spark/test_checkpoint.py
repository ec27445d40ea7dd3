"""What the checkpoint says of a micro-batch."""

from __future__ import annotations

import pytest

from oncelog.spark.checkpoint import CheckpointError, LocalFiles, batch_offsets, has_state_of, parse_offset_log

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1795262445533,"conf":{}}'


def write(root, batch_id, *lines):
    (root / "offsets").mkdir(exist_ok=True)
    (root / "offsets" / str(batch_id)).write_text("\n".join(["v1", METADATA, *lines]))


def test_a_batch_starts_where_the_one_before_ended(tmp_path):
    write(tmp_path, 6, '{"a":{"0":5}}', "-")
    write(tmp_path, 7, '{"a":{"0":9}}', "17")
    offsets = batch_offsets(LocalFiles(str(tmp_path)), 7)
    assert offsets.start == ['{"a":{"0":5}}', None]
    assert offsets.end_lines == ['{"a":{"0":9}}', "17"]
    assert offsets.planned_ms == 1795262445533


def test_the_start_of_the_first_batch_is_not_in_the_offset_log(tmp_path):
    write(tmp_path, 0, '{"a":{"0":5}}')
    assert batch_offsets(LocalFiles(str(tmp_path)), 0).start == [None]


def test_a_source_that_was_added_has_no_start(tmp_path):
    write(tmp_path, 0, "1")
    write(tmp_path, 1, "2", '{"a":{"0":5}}')
    assert batch_offsets(LocalFiles(str(tmp_path)), 1).start == ["1", None]


@pytest.mark.parametrize("batch_id", [0, 4])
def test_missing_offsets_are_an_error(tmp_path, batch_id):
    write(tmp_path, 5, "1")
    with pytest.raises(CheckpointError):
        batch_offsets(LocalFiles(str(tmp_path)), batch_id)
    with pytest.raises(CheckpointError):
        batch_offsets(LocalFiles(str(tmp_path)), 5)


def test_another_version_is_refused():
    with pytest.raises(CheckpointError, match="v2"):
        parse_offset_log("v2\n{}\n1")


@pytest.mark.parametrize("metadata", ["", "{}", "[]", "null", "x"])
def test_an_offset_log_that_does_not_say_when_it_was_written_is_refused(tmp_path, metadata):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text(f"v1\n{metadata}\n1")
    with pytest.raises(CheckpointError, match="when a micro-batch was planned"):
        batch_offsets(LocalFiles(str(tmp_path)), 0)


def state(root, *names):
    for name in names:
        (root / "state" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "state" / name).write_text("")


def test_state_is_there_when_every_partition_has_its_version(tmp_path):
    state(tmp_path, "0/_metadata/metadata", "0/0/1.delta", "0/0/.1.delta.crc", "0/1/1.delta")
    files = LocalFiles(str(tmp_path))
    assert has_state_of(files, 0)
    assert not has_state_of(files, 1)
    state(tmp_path, "0/0/2.zip")
    assert not has_state_of(files, 1)
    state(tmp_path, "0/1/2.changelog")
    assert has_state_of(files, 1)


def test_state_is_missing_when_one_store_of_a_partition_lacks_its_version(tmp_path):
    state(tmp_path, "0/0/left-keyToNumValues/1.delta", "0/0/right-keyToNumValues/1.delta")
    files = LocalFiles(str(tmp_path))
    assert has_state_of(files, 0)
    state(tmp_path, "0/0/left-keyToNumValues/2.delta")
    assert not has_state_of(files, 1)


def test_query_without_state_has_none(tmp_path):
    assert not has_state_of(LocalFiles(str(tmp_path)), 0)
