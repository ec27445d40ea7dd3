"""`oncelog run`: a function as an exactly-once pipeline."""

from __future__ import annotations

import json
import signal
from textwrap import dedent

import pytest

from oncelog.cli.run import parse_interval_ms
from tests.spark import topics
from tests.support import requirements
from tests.support.names import unique


@pytest.fixture
def functions(tmp_path):
    """A user's file."""
    path = tmp_path / "functions.py"
    path.write_text(
        dedent(
            """
            from pyspark.sql import functions as F

            NOT_A_FUNCTION = 1


            def upper(lines):
                return lines.select("key", F.upper(F.col("value").cast("string")).alias("value"))


            def count(lines):
                counted = lines.groupBy("key").count()
                return counted.select("key", F.col("count").cast("string").alias("value"))


            def divide(lines):
                return lines.select(F.raise_error(F.lit("the value is no number")).alias("value"))
            """
        )
    )
    return path


@pytest.fixture
def pair(here):
    source, target = unique("in"), unique("out")
    here("topics", "create", source, "--partitions", "2")
    return source, target


@pytest.fixture
def arguments(pair, functions, oncelog_broker):
    """The command line that runs a function of the file from one topic to the other."""

    def make(function: str, *more: object) -> list[str]:
        known = ["run", f"{functions}:{function}", "--from", pair[0], "--to", pair[1], "--master", "local[2]"]
        return [*known, "--bootstrap-server", oncelog_broker.bootstrap_servers, *map(str, more)]

    return make


def values(oncelog_broker, topic):
    return topics.values(topics.read(oncelog_broker.bootstrap_servers, topic))


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_function_without_state_needs_no_checkpoint(finish, process, arguments, pair, here, oncelog_broker):
    requirements.java()
    here("produce", pair[0], "-K:", stdin=b"a:one\nb:two\n")
    once = finish(*arguments("upper", "--once", "--json"))
    assert once.status == 0, once.errors
    assert once.errors.startswith("Java ")
    (report,) = map(json.loads, once.lines)
    assert (report["records"], report["skipped"], report["attempts"]) == (2, False, 1)
    assert values(oncelog_broker, pair[1]) == ["ONE", "TWO"]

    running = process(*arguments("upper"))
    here("produce", pair[0], "-K:", stdin=b"a:three\n")
    assert running.stdout.readline().startswith("micro-batch 1: 1 records to 1 partitions in ")
    running.send_signal(signal.SIGTERM)
    output, errors = running.communicate(timeout=60)
    assert (running.returncode, output) == (0, ""), errors
    assert values(oncelog_broker, pair[1]) == ["ONE", "THREE", "TWO"]
    assert here("verify", "--from", pair[0], "--to", pair[1]).status == 0


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_function_with_state_goes_on_from_its_checkpoint(finish, arguments, pair, here, oncelog_broker, tmp_path):
    requirements.java()
    refused = finish(*arguments("count", "--once"))
    assert refused.status == 2
    assert refused.errors.splitlines()[-1] == (
        "oncelog: count remembers something from record to record: give it a --checkpoint"
    )
    settings = ("--once", "--checkpoint", tmp_path / "checkpoint", "--output-mode", "update")
    for expected in (["1", "2"], ["1", "2", "3"]):
        here("produce", pair[0], "-K:", stdin=b"a:x\na:x\nb:x\n" if len(expected) == 2 else b"a:x\n")
        ended = finish(*arguments("count", *settings))
        assert ended.status == 0, ended.errors
        assert values(oncelog_broker, pair[1]) == expected


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_pipeline_that_fails_says_so_in_a_sentence(finish, arguments, pair, here, oncelog_broker):
    requirements.java()
    here("produce", pair[0], stdin=b"x\n")
    ended = finish(*arguments("divide", "--once"))
    assert ended.status == 5
    last = ended.errors.splitlines()[-1]
    assert last.startswith("oncelog: the pipeline stopped: ")
    assert "the value is no number" in last
    assert "Traceback" not in ended.errors
    assert values(oncelog_broker, pair[1]) == []


@pytest.mark.parametrize(
    ("function", "more", "sentence"),
    [
        ("nothing", [], "{file} has no function nothing"),
        ("NOT_A_FUNCTION", [], "{file} has no function NOT_A_FUNCTION"),
        ("upper", ["--output-mode", "update"], "--output-mode needs a --checkpoint"),
        (
            "upper",
            ["--data-dir", "d"],
            "--data-dir is for the log that is started without --bootstrap-server",
        ),
    ],
)
def test_wrong_use_is_said_before_spark_starts(cli, arguments, functions, function, more, sentence):
    ended = cli(*arguments(function, *more))
    assert (ended.status, ended.sentence) == (2, sentence.format(file=functions))


def test_file_that_is_not_there_or_does_not_load_is_named(here, tmp_path):
    missing = tmp_path / "missing.py"
    ended = here("run", f"{missing}:f", "--from", "a", "--to", "b")
    assert (ended.status, ended.sentence) == (2, f"there is no file {missing}")
    broken = tmp_path / "broken.py"
    broken.write_text("import nothing_of_that_name\n")
    ended = here("run", f"{broken}:f", "--from", "a", "--to", "b")
    assert ended.status == 2
    assert ended.sentence.startswith(f"{broken} does not load: ModuleNotFoundError: ")
    ended = here("run", "no-colon.py", "--from", "a", "--to", "b")
    assert (ended.status, ended.sentence) == (2, "no-colon.py is not FILE.py:FUNCTION")


def test_input_topic_has_to_be_there(here, functions):
    missing = unique("missing")
    ended = here("run", f"{functions}:upper", "--from", missing, "--to", "b")
    assert (ended.status, ended.sentence) == (4, f"there is no topic {missing}")


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("500 ms", 500), ("10 seconds", 10_000), ("1s", 1000), ("2 minutes", 120_000), ("1 hour", 3_600_000)],
)
def test_trigger_is_read_as_spark_writes_it(text, expected_ms):
    assert parse_interval_ms(text) == expected_ms


def test_trigger_that_is_none_is_wrong_usage(cli, arguments):
    ended = cli(*arguments("upper", "--trigger", "soon"))
    assert ended.status == 2
    assert "'soon' is not a number and ms, seconds, minutes or hours" in " ".join(
        ended.errors.replace("│", " ").split()
    )
