"""Directories are named as Hadoop's Path names them: no part of a name is a query, a fragment or an escape."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.spark.options.table import scheme_and_path
from oncelog.spark.sink.encoded_task import staging_root
from oncelog.spark.sink.format_writers import stream_settings

ODD = ["/a/run#2", "/a/what?", "/a/b c", "/a/b%20c", "/a/12:30", "/ä"]


@pytest.mark.parametrize(
    ("location", "found"),
    [
        ("/a/b", ("", "/a/b")),
        ("a/b", ("", "a/b")),
        ("file:/a/b", ("file", "/a/b")),
        ("file:///a/b", ("file", "/a/b")),
        ("file://host/a/b", ("file", "/a/b")),
        ("hdfs://host:9000/a/b", ("hdfs", "/a/b")),
        ("s3a://bucket/a#b", ("s3a", "/a#b")),
        *((path, ("", path)) for path in ODD),
        *((f"file:{path}", ("file", path)) for path in ODD),
    ],
)
def test_scheme_and_path_are_told_apart(location, found):
    assert scheme_and_path(location) == found


@pytest.mark.parametrize("path", ODD)
def test_checkpoint_and_staging_are_where_the_options_say(path):
    arguments = {"topic": "out", "bootstrap_servers": "localhost:9", "checkpoint_location": path}
    assert stream_settings(arguments).checkpoint == path
    assert staging_root(path) == Path(path)
