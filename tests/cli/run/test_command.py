"""`oncelog run`: a function as an exactly-once pipeline."""

from __future__ import annotations

import json
import re
import signal
from textwrap import dedent

import pytest

from harness import requirements
from harness.names import unique
from harness.terminal import Terminal
from oncelog.cli.run.command import parse_interval_ms
from tests.spark import topics


@pytest.fixture
def functions(tmp_path):
    """A user's file."""
    path = tmp_path / "functions.py"
    path.write_text(
        dedent(
            """
            from pyspark.sql import functions as F
            from pyspark.sql.types import StructType

            KEY_AND_VALUE = StructType.fromDDL("key string, value string")


            @F.udf("string")
            def number(value):
                raise ValueError("the value is no number")


            def upper(lines):
                return lines.select("key", F.upper(F.col("value").cast("string")).alias("value"))


            def count(lines):
                counted = lines.groupBy("key").count()
                return counted.select("key", F.col("count").cast("string").alias("value"))


            def split(lines):
                text = F.col("value").cast("string")
                return lines.where(text.contains("!")), lines.where(~text.contains("!"))


            def routed(lines):
                return lines.select("key", "value", F.regexp_replace("topic", "^in", "out").alias("topic"))


            def joined(left, right):
                matches = left.alias("l").join(right.alias("r"), F.expr("l.key = r.key"))
                both = F.concat(F.col("l.value").cast("string"), F.lit("+"), F.col("r.value").cast("string"))
                return {"TARGET": matches.select(F.col("l.key").alias("key"), both.alias("value")), "COUNTS": count(left)}


            def divide(lines):
                return lines.select(number("value").alias("value"))
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


def assert_no_number(ended, functions):
    """The error of a function is told with the line of the user's file, and nothing of Spark's comes before it."""
    line = functions.read_text().splitlines().index('    raise ValueError("the value is no number")') + 1
    *start, last = ended.errors.splitlines()
    assert ended.status == 5
    assert last == f"oncelog: the pipeline stopped: ValueError: the value is no number ({functions}:{line}, in number)"
    assert not any(mark in text for text in start for mark in ("Traceback", "py4j", "\tat "))


@pytest.mark.spark
@pytest.mark.drawn(8)
@pytest.mark.timeout(900)
def test_function_without_state_needs_no_checkpoint(finish, process, arguments, pair, here, oncelog_broker):
    requirements.java()
    here("produce", pair[0], "-K:", stdin=b"a:one\nb:two\n")
    options = ("--option", "failOnDataLoss=false", "--option", "maxOffsetsPerTrigger=1")
    once = finish(*arguments("upper", "--once", "--json", *options))
    assert once.status == 0, once.errors
    assert re.match(r"Java .*\n(.*\n)*Spark started in \d+\.\d s\n", once.errors)
    reports = list(map(json.loads, once.lines))
    assert [(one["records"], one["skipped"], one["attempts"]) for one in reports] == [(1, False, 1)] * 2
    assert values(oncelog_broker, pair[1]) == ["ONE", "TWO"]

    running = process(*arguments("upper"))
    here("produce", pair[0], "-K:", stdin=b"a:three\n")
    assert running.stdout.readline().startswith("micro-batch 2: 1 records to 1 partitions in ")
    running.send_signal(signal.SIGTERM)
    output, errors = running.communicate(timeout=60)
    assert (running.returncode, output) == (0, ""), errors
    assert values(oncelog_broker, pair[1]) == ["ONE", "THREE", "TWO"]
    assert here("verify", "--from", pair[0], "--to", pair[1]).status == 0


@pytest.mark.spark
@pytest.mark.drawn(8)
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
@pytest.mark.drawn(8)
@pytest.mark.timeout(900)
def test_function_whose_first_micro_batch_failed_reads_partitions_that_came_since(
    finish, arguments, pair, functions, here, oncelog_broker, tmp_path
):
    requirements.java()
    here("produce", pair[0], "-K:", stdin=b"a:x\n")
    settings = ("--once", "--checkpoint", tmp_path / "checkpoint")
    ended = finish(*arguments("divide", *settings))
    assert_no_number(ended, functions)
    here("topics", "alter", pair[0], "--partitions", "3")
    here("produce", pair[0], "-K:", "--partition", "2", stdin=b"b:y\n")
    functions.write_text(functions.read_text().replace("def divide", "def divided").replace("def upper", "def divide"))
    for _ in range(2):
        ended = finish(*arguments("divide", *settings))
        assert ended.status == 0, ended.errors
    assert values(oncelog_broker, pair[1]) == ["X", "Y"]


@pytest.mark.spark
@pytest.mark.drawn(8)
@pytest.mark.timeout(900)
def test_pipeline_that_fails_says_so_in_a_sentence(finish, arguments, pair, functions, here, oncelog_broker):
    requirements.java()
    here("produce", pair[0], stdin=b"x\n")
    assert_no_number(finish(*arguments("divide", "--once")), functions)
    assert values(oncelog_broker, pair[1]) == []


@pytest.mark.spark
@pytest.mark.drawn(8)
@pytest.mark.timeout(900)
def test_join_of_two_topics_and_a_count_of_one_are_written_together(finish, functions, here, oncelog_broker, tmp_path):
    """Inner joins keep both sides for ever; a match is written with the later of its records, whenever that comes."""
    requirements.java()
    left, right, target, counts = (unique(name) for name in ("left", "right", "joined", "counts"))
    functions.write_text(functions.read_text().replace("TARGET", target).replace("COUNTS", counts))
    here("topics", "create", left, "--partitions", "2")
    here("topics", "create", right)
    here("produce", left, "-K:", stdin=b"a:1\nb:2\n")
    topics_named = ("--from", left, "--from", right, "--to", target, "--to", counts, "--transactional-id", target)
    servers = ("--bootstrap-server", oncelog_broker.bootstrap_servers, "--master", "local[2]", "--once")
    arguments = ("run", f"{functions}:joined", *topics_named, *servers)
    stateful = ("--checkpoint", tmp_path / "checkpoint", "--output-mode", "update", "--json")
    for records, joined, counted in (
        (b"a:x\n", ["1+x"], ["1", "1"]),
        (b"b:y\na:z\n", ["1+x", "1+z", "2+y"], ["1", "1"]),
    ):
        here("produce", right, "-K:", stdin=records)
        ended = finish(*arguments, *stateful)
        assert ended.status == 0, ended.errors
        assert values(oncelog_broker, target) == joined
        assert values(oncelog_broker, counts) == counted
    assert len(here("topics", "describe", counts, "--json").json[0]["partitions"]) == 2


@pytest.mark.spark
@pytest.mark.drawn(8)
@pytest.mark.timeout(900)
def test_terminal_shows_one_line_that_changes(pair, functions, here, process, oncelog_broker):
    requirements.java()
    here("produce", pair[0], "-K:", stdin=b"a:one\nb:two!\n")
    other = unique("quiet")
    named = ("--from", pair[0], "--to", pair[1], "--to", other, "--transactional-id", unique("split"))
    servers = ("--bootstrap-server", oncelog_broker.bootstrap_servers, "--master", "local[2]")
    with Terminal(columns=120) as terminal:
        running = process("run", f"{functions}:split", *named, *servers, stdout=terminal.end, env=terminal.environment)
        shown = terminal.read_until("epoch")
        assert "no micro-batch yet" in shown
        line = shown[shown.rindex("micro-batch 0") :]
        assert re.match(r"micro-batch 0  in \d+/s  out \d+/s  lag 0  transaction \d+ ms  attempts 1  epoch", line)
        here("produce", pair[0], "-K:", stdin=b"a:three\n")
        terminal.read_until("micro-batch 1")
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
        left = terminal.read_to_the_end().splitlines()[-1]
    assert re.fullmatch(r"micro-batch 1: 1 records to 1 partitions in \d+ ms, transaction \d+ ms", left)
    assert values(oncelog_broker, pair[1]) == ["two!"]
    assert values(oncelog_broker, other) == ["one", "three"]


@pytest.mark.spark
@pytest.mark.drawn(8)
@pytest.mark.timeout(900)
def test_column_names_the_outputs_where_the_command_line_does_not(finish, pair, functions, here, oncelog_broker):
    requirements.java()
    source = pair[0]
    target = source.replace("in", "out", 1)
    here("produce", source, "-K:", stdin=b"a:one\n")
    arguments = ["run", f"{functions}:routed", "--from", source, "--transactional-id", target, "--once"]
    arguments += ["--bootstrap-server", oncelog_broker.bootstrap_servers, "--master", "local[2]"]
    here("topics", "create", target)
    ended = finish(*arguments)
    assert ended.status == 0, ended.errors
    assert values(oncelog_broker, target) == ["one"]


@pytest.mark.parametrize(
    ("topics_named", "sentence"),
    [
        ("--from a", "without --to, --transactional-id has to say who writes: one per pipeline"),
        ("--from a --to x --to y", "with several --to, --transactional-id has to say who writes: one per pipeline"),
        ("--from a --from b --to x --to x --transactional-id t", "topic x is named twice as an output"),
        (
            "--from a --from b --from c --to x",
            "joined takes 2 DataFrames, and the inputs are a, b, c: let it take one for each, or one for all together",
        ),
    ],
)
def test_topics_that_do_not_fit_are_refused_before_spark_starts(here, functions, topics_named, sentence):
    ended = here("run", f"{functions}:joined", *topics_named.split())
    assert (ended.status, ended.sentence) == (2, sentence)


@pytest.mark.parametrize(
    ("function", "more", "sentence"),
    [
        ("missing", [], "{file} has no function missing"),
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


def test_topic_that_is_read_and_written_is_refused_before_spark_starts(here, functions):
    ended = here("run", f"{functions}:upper", "--from", "a", "--from", "b", "--to", "b")
    assert (ended.status, ended.sentence) == (
        2,
        "topic b is in --from and --to, and would be read and written without end: write to another topic, or say "
        "--write-to-input where that is meant",
    )


def test_file_that_is_not_there_or_does_not_load_is_named(here, tmp_path):
    missing = tmp_path / "missing.py"
    ended = here("run", f"{missing}:f", "--from", "a", "--to", "b")
    assert (ended.status, ended.sentence) == (2, f"there is no file {missing}")
    broken = tmp_path / "broken.py"
    broken.write_text("import os\n\ndef f(lines:\n    return lines\n")
    ended = here("run", f"{broken}:f", "--from", "a", "--to", "b")
    assert (ended.status, ended.sentence) == (
        2,
        f"{broken} does not load: SyntaxError: '(' was never closed ({broken}:3)",
    )
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
