"""`oncelog topics compact` against a broker."""

from __future__ import annotations

import json
import signal

import pytest

from harness.names import unique
from harness.shared_producer import until

LAG = "max.compaction.lag.ms"
FORCED = "1001"
QUICK = {"log_cleaner_backoff_ms": "100"}
COMPACTED = ("--config", "cleanup.policy=compact")


@pytest.fixture
def quick(cli, new_oncelog):
    """Run a command against a broker whose cleaner does not wait for long."""
    node = new_oncelog(**QUICK)

    def run(*arguments, stdin: bytes = b""):
        return cli(*arguments, "--bootstrap-server", node.bootstrap_servers, stdin=stdin)

    run.bootstrap_servers = node.bootstrap_servers
    return run


def fill(run, name: str) -> None:
    """A hundred values of three keys."""
    lines = "".join(f"{number % 3}={'x' * 100}{number}\n" for number in range(100))
    assert run("produce", name, "-K", "=", stdin=lines.encode()).status == 0


def own_settings(run, name: str) -> dict[str, str]:
    (described,) = run("topics", "describe", name, "--json").json
    return described["config"]


def test_compacted_topic_has_the_last_value_of_each_key_and_its_settings_again(quick):
    name = unique("compacted")
    quick("topics", "create", name, *COMPACTED)
    fill(quick, name)
    ended = quick("topics", "compact", name, "--json")
    assert ended.status == 0, ended.errors
    (row,) = ended.json
    assert (row["topic"], row["partition"]) == (name, 0)
    assert 0 < row["bytes_after"] < row["bytes_before"] / 2
    assert own_settings(quick, name) == {"cleanup.policy": "compact"}
    assert quick("topics", "compact", name, "--json").json == [row | {"bytes_before": row["bytes_after"]}]


def test_own_lag_of_a_topic_comes_back_and_is_said_before(quick):
    name = unique("lagging")
    quick("topics", "create", name, *COMPACTED, "--config", f"{LAG}=86400000", "--config", "min.compaction.lag.ms=5")
    fill(quick, name)
    before = own_settings(quick, name)
    ended = quick("topics", "compact", name)
    again = f"oncelog topics alter {name} --config {LAG}=86400000"
    assert ended.errors == f"if this command is killed, set {LAG} of topic {name} back: {again}\n"
    assert ended.lines[1].split()[:2] == [name, "0"]
    assert own_settings(quick, name) == before


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_stopped_command_leaves_nothing_that_the_next_one_does_not_take_away(quick, process, how):
    name = unique("stopped")
    quick("topics", "create", name, *COMPACTED)
    one = process("topics", "compact", name, "--quiet", "600", "--bootstrap-server", quick.bootstrap_servers)
    until(lambda: own_settings(quick, name).get(LAG) == FORCED)
    one.send_signal(how)
    one.wait(60)
    if how is signal.SIGKILL:
        assert own_settings(quick, name)[LAG] == FORCED
        assert quick("topics", "compact", name, "--quiet", "0").status == 0
    assert LAG not in own_settings(quick, name)


def test_topic_that_is_not_compacted_is_refused_and_none_is_changed(quick):
    compacted, plain = unique("compacted"), unique("plain")
    quick("topics", "create", compacted, *COMPACTED)
    quick("topics", "create", plain)
    refused = quick("topics", "compact", compacted, plain)
    assert refused.status == 4
    assert refused.sentence == f"topic {plain} is not compacted: its cleanup.policy is delete"
    assert LAG not in own_settings(quick, compacted)


@pytest.mark.jvm
@pytest.mark.drawn(8)
def test_apache_kafka_compacts_what_is_in_sealed_segments(cli, new_kafka):
    node = new_kafka(**QUICK)
    name = unique("compacted")

    def run(*arguments, stdin: bytes = b""):
        return cli(*arguments, "--bootstrap-server", node.bootstrap_servers, stdin=stdin)

    run("topics", "create", name, *COMPACTED, "--config", "segment.bytes=1048576")
    # Kafka seals a segment with an append alone: what is in the last one stays as it is.
    large = "".join(f"{number % 3}={'x' * 1000}{number}\n" for number in range(2500))
    assert run("produce", name, "-K", "=", stdin=large.encode()).status == 0
    ended = run("topics", "compact", name, "--json")
    (row,) = json.loads(ended.output)
    assert row["bytes_after"] < row["bytes_before"] / 2
    assert LAG not in own_settings(run, name)
