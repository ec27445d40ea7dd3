"""`oncelog topics move` against a broker with two log directories."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.names import unique
from harness.waiting import until


@pytest.fixture
def two(cli, new_oncelog, tmp_path: Path):
    """Run a command against a broker with two log directories."""
    paths = [str(tmp_path / name) for name in ("one", "two")]
    node = new_oncelog(log_dirs=",".join(paths))

    def run(*arguments, stdin: bytes = b""):
        return cli(*arguments, "--bootstrap-server", node.bootstrap_servers, stdin=stdin)

    run.paths = paths
    run.node = node
    return run


def places(run, name: str) -> list[str]:
    return [path for path in run.paths if (Path(path) / name).is_dir()]


def test_partitions_go_where_they_are_told_and_keep_their_records(two):
    name = unique("moved")
    two("topics", "create", name, "--partitions", "2")
    for partition in "01":
        assert two("produce", name, "-p", partition, stdin=b"first\nsecond\n").status == 0
    target = two.paths[1]
    ended = two("topics", "move", name, "--to", target, "--json")
    assert ended.status == 0, ended.errors
    assert [(row["partition"], row["log_directory"], row["moves_to"], row["lag"]) for row in ended.json] == [
        (0, target, None, 0),
        (1, target, None, 0),
    ]
    # The partition is served from there; the old directory goes a moment later.
    until(lambda: [places(two, f"{name}-{index}") for index in (0, 1)] == [[target], [target]])
    back = two("topics", "move", name, "--to", two.paths[0], "-p", "1")
    assert back.lines[1].split()[:4] == [name, "1", "1", two.paths[0]]
    assert two("produce", name, "-p", "1", stdin=b"third\n").status == 0
    two.node.kill()
    two.node.start()
    assert [places(two, f"{name}-{index}") for index in (0, 1)] == [[target], [two.paths[0]]]
    read = two("consume", name, "-e").lines
    assert sorted(read) == ["first", "first", "second", "second", "third"]


def test_directories_that_a_stopped_move_left_are_told_apart(two, cli):
    name = unique("moved")
    two("topics", "create", name)
    assert two("produce", name, stdin=b"first\nsecond\n").status == 0
    source, target = places(two, f"{name}-0"), two.paths
    (old,) = source
    (new,) = [path for path in target if path != old]
    assert two("topics", "move", name, "--to", new).status == 0
    until(lambda: places(two, f"{name}-0") == [new])
    two.node.stop()
    shutil.copytree(f"{new}/{name}-0", f"{old}/{name}-0")
    Path(f"{old}/{name}-0/oncelog-moved-1").unlink()
    Path(f"{old}/{name}-0/{0:020d}.log").write_bytes(b"")
    shutil.copytree(f"{new}/{name}-0", f"{old}/{name}-0.{'0' * 32}-future")
    verified = cli("log", "verify", *two.paths)
    assert verified.status == 0, verified.output
    assert f"pending {old}/{name}-0: the partition was moved to another directory; a start removes it" in verified.lines
    assert f"{'0' * 32}-future: a copy on its way to here" in verified.output
    two.node.start()
    assert two("consume", name, "-e").lines == ["first", "second"]
    until(lambda: places(two, f"{name}-0") == [old])


def test_what_is_not_there_is_refused_with_one_sentence(two):
    name = unique("moved")
    two("topics", "create", name)
    refused = two("topics", "move", name, "--to", "/nowhere")
    assert (refused.status, refused.sentence) == (
        4,
        f"there is no log directory /nowhere: there are {', '.join(two.paths)}",
    )
    refused = two("topics", "move", name, "--to", two.paths[1], "-p", "7")
    assert (refused.status, refused.sentence) == (4, f"topic {name} has no partition 7")
    refused = two("topics", "move", name, "--to", "/nowhere", "--broker", "1")
    assert refused.status == 4
    assert refused.sentence.startswith("there is no log directory /nowhere: there are ")


def test_relative_path_is_seen_from_here(two, tmp_path, monkeypatch):
    name = unique("moved")
    two("topics", "create", name)
    monkeypatch.chdir(tmp_path)
    for target in ("one", "./two/"):
        (row,) = two("topics", "move", name, "--to", target, "--json").json
        assert row["log_directory"] == str(tmp_path / target)
