"""How many DataFrames a function gets, and what becomes of those that it returns."""

from __future__ import annotations

from functools import partial

import pytest

from oncelog.spark import FunctionError
from oncelog.spark.sink.encoding import RowError
from oncelog.spark.user_function import inputs_of, output_of, output_topic

BOTH_APART = (("a",), ("b",))
BOTH_TOGETHER = (("a", "b"),)


def one(rows): ...
def one_and_a_default(rows, limit=3): ...
def two(left, right): ...
def two_and_a_default(left, right, limit=3): ...
def three(left, middle, right): ...
def any_number(*tables): ...
def one_and_any_number(first, *others): ...
def by_name(rows, *, limit): ...


class Callable:
    def __call__(self, left, right): ...


@pytest.mark.parametrize(
    ("function", "topics", "inputs"),
    [
        (one, "a", (("a",),)),
        (one, "ab", BOTH_TOGETHER),
        (one_and_a_default, "ab", BOTH_TOGETHER),
        (two, "ab", BOTH_APART),
        (two, "aa", (("a",), ("a",))),
        (one, "aa", (("a",),)),
        (two_and_a_default, "ab", BOTH_APART),
        (any_number, "ab", BOTH_APART),
        (one_and_any_number, "ab", BOTH_APART),
        (one_and_any_number, "a", (("a",),)),
        (partial(three, 1), "ab", BOTH_APART),
        (Callable(), "ab", BOTH_APART),
    ],
)
def test_function_gets_one_dataframe_for_each_topic_or_one_for_all(function, topics, inputs):
    assert inputs_of(function, topics) == inputs


@pytest.mark.parametrize(
    ("function", "topics", "sentence"),
    [
        (two, "a", "two takes 2 DataFrames, and the inputs are a: let it take one for each, or one for all together"),
        (
            three,
            "ab",
            "three takes 3 DataFrames, and the inputs are a, b: ",
        ),
        (lambda: None, "ab", "<lambda> takes 0 DataFrames"),
        (by_name, "a", "by_name needs a keyword argument; it gets DataFrames only"),
        (one, "", "no topic is named for one to read"),
        (type, "a", "nothing says how many DataFrames type takes"),
    ],
)
def test_function_that_does_not_fit_its_inputs_is_refused(function, topics, sentence):
    with pytest.raises(FunctionError) as refused:
        inputs_of(function, topics)
    assert str(refused.value).startswith(sentence)


def test_one_output_is_named_and_several_by_a_column():
    assert output_topic(["x"]) == "x"
    assert output_topic(["x", "y"]) is None
    assert output_topic([]) is None
    with pytest.raises(FunctionError, match="topic x is named twice as an output"):
        output_topic(["x", "y", "x"])


@pytest.fixture(scope="module")
def words(spark):
    return spark.createDataFrame([("k", "v")], "key string, value string")


@pytest.fixture(scope="module")
def numbers(spark):
    return spark.createDataFrame([(b"7", 1)], "value binary, partition int")


@pytest.mark.spark
def test_several_outputs_become_one_dataframe_with_a_column_topic(words, numbers):
    by_topic = {"y": numbers, "x": words}
    for result, topics in (((words, numbers), "xy"), ([words, numbers], "xy"), (by_topic, "xy"), (by_topic, "")):
        rows = output_of(one, result, topics)
        assert rows.columns == ["key", "value", "partition", "topic"]
        found = {row.topic: (row.key, row.value, row.partition) for row in rows.collect()}
        assert found == {"x": (b"k", b"v", None), "y": (None, b"7", 1)}


@pytest.mark.spark
def test_one_output_is_left_as_it_is(words):
    for result in (words, (words,), {"x": words}):
        assert output_of(one, result, ["x"]) is words


@pytest.mark.spark
def test_rows_that_name_their_topic_are_held_to_the_outputs(words):
    named = words.selectExpr("value", "'y' topic")
    assert output_of(one, named, []) is named
    assert [row.topic for row in output_of(one, named, ["x", "y"]).collect()] == ["y"]
    for odd in ("'z'", "cast(null as string)"):
        with pytest.raises(Exception, match=r"a row is for topic (z|null), which is not an output"):
            output_of(one, words.selectExpr("value", f"{odd} topic"), ["x", "y"]).collect()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("result", "topics", "sentence"),
    [
        (lambda w: None, "x", "one returns NoneType, not a DataFrame"),
        (lambda w: (w, None), "xy", "one returns NoneType, not a DataFrame"),
        (lambda w: "x", "x", "one returns str, not a DataFrame"),
        (lambda w: (w, w), "x", "one returns 2 DataFrames, and the outputs are x"),
        (lambda w: (w,), "xy", "one returns 1 DataFrame, and the outputs are x, y"),
        (lambda w: (w, w), "", "one returns 2 DataFrames, and the outputs are none"),
        (lambda w: {"x": w}, "xy", "one returns DataFrames for x, and the outputs are x, y"),
        (lambda w: {"x": w, "z": w}, "xy", "one returns DataFrames for x, z, and the outputs are x, y"),
        (lambda w: {}, "", "one returns no DataFrame"),
        (lambda w: (), "", "one returns no DataFrame"),
        (lambda w: w, "xy", "one returns one DataFrame without a column `topic`, and the outputs are x, y"),
        (lambda w: w, "", "one returns one DataFrame without a column `topic`, and the outputs are none"),
    ],
)
def test_what_a_function_returns_has_to_fit_the_outputs(words, result, topics, sentence):
    with pytest.raises(FunctionError) as refused:
        output_of(one, result(words), topics)
    assert str(refused.value).startswith(sentence)


@pytest.mark.spark
def test_columns_that_cannot_be_written_are_refused_for_each_output(words):
    with pytest.raises(RowError, match="no column `value`"):
        output_of(one, (words, words.select("key")), ["x", "y"])
    with pytest.raises(RowError, match="column key is of type int"):
        output_of(one, (words, words.selectExpr("value", "1 key")), ["x", "y"])
