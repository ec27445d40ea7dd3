"""The words about an error: a sentence, and the place in the user's code."""

from __future__ import annotations

import traceback

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from oncelog.spark import FenceError, FunctionError
from oncelog.spark.causes import (
    PROXY_ERROR,
    TEXT_MAX,
    Cause,
    JavaError,
    cause_of,
    raise_for_spark,
    reasons_of,
    without_stack_traces,
)

WORKER = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1100, in main
    process()
  File "jobs.py", line 12, in price
    return tariff(row)
  File "/srv/jobs/tariffs.py", line 3, in tariff
    return json.loads(row)
  File "/usr/lib/python3.12/json/__init__.py", line 346, in loads
    return _default_decoder.decode(s)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
"""
IN_A_QUERY = (
    "[STREAM_FAILED] Query [id = 1] terminated with exception: An exception was raised by the Python Proxy. "
    'Return Message: Traceback (most recent call last):\n  File "/e/site-packages/py4j/clientserver.py", line 644, in _call_proxy\n'
    "    return_value = getattr(self.pool[obj_id], method)(*params)\n"
)


def fails():
    raise ValueError("row is bad")


def raised(call) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whichever it is
        call()
    return caught.value


def test_error_of_a_task_is_told_with_the_last_line_of_the_users():
    assert cause_of(RuntimeError(WORKER)) == Cause(
        "JSONDecodeError", "Expecting value: line 1 column 1 (char 0)", "/srv/jobs/tariffs.py:3, in tariff"
    )


def test_error_in_the_text_of_a_query_is_told_from_its_end():
    told = cause_of(RuntimeError(IN_A_QUERY + "pyspark.errors.PythonException: " + WORKER + " SQLSTATE: 39000"))
    assert str(told).startswith("JSONDecodeError: Expecting value")


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        ("KeyError: 'a'", Cause("KeyError", "'a'")),
        ("AssertionError", Cause("AssertionError", "")),
        ("jobs.Mine: a: b", Cause("Mine", "a: b")),
        ("oncelog.spark.sink.writable.RowError: no column `value`", Cause("RowError", "no column `value`")),
    ],
)
def test_error_without_a_line_of_the_users_has_no_place(raised, told):
    assert cause_of(RuntimeError(IN_A_QUERY + raised + "\n=== Streaming Query ===\n")) == told


def test_error_of_ours_is_told_as_it_is():
    assert cause_of(FenceError("another query\nhas it")) == Cause("FenceError", "another query\nhas it")


def test_error_of_the_drivers_has_its_line():
    assert cause_of(raised(fails)) == Cause("ValueError", "row is bad", f"tests/spark/test_causes.py:{LINE}, in fails")


LINE = fails.__code__.co_firstlineno + 1


def test_text_that_says_nothing_is_the_error_itself():
    assert cause_of(RuntimeError("")) == Cause("RuntimeError", "")
    assert str(cause_of(RuntimeError("one\ntwo"))) == "RuntimeError: one"
    assert cause_of(RuntimeError("Traceback (most recent call last):\n")) == Cause(
        "RuntimeError", "Traceback (most recent call last):"
    )


def test_reasons_are_told_from_the_nearest_on():
    first, second, third = FunctionError("a"), ConnectionError("b"), OSError("c")
    first.__cause__, second.__context__ = second, third
    third.__context__ = first
    assert reasons_of(first) == ["because of ConnectionError: b", "because of OSError: c"]
    second.__suppress_context__ = True
    assert reasons_of(first) == ["because of ConnectionError: b"]


pytestmark = pytest.mark.spark


def error_of(call) -> Py4JJavaError:
    with pytest.raises(Py4JJavaError) as raised:
        call()
    return raised.value


def as_spark_reads_it(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


@pytest.fixture
def not_an_address(spark) -> Py4JJavaError:
    return error_of(lambda: spark._jvm.java.net.URI(" " * 2 * TEXT_MAX))


@pytest.fixture
def interrupted(spark) -> Py4JJavaError:
    threads = spark._jvm.java.lang.Thread

    def sleep():
        threads.currentThread().interrupt()
        threads.sleep(10_000)

    return error_of(sleep)


@pytest.fixture
def proxy_error(spark):
    """Spark's own regular expression."""
    execution = spark._jvm.org.apache.spark.sql.execution.streaming.runtime.StreamExecution
    return execution.PROXY_ERROR()


def test_spark_recurses_through_the_text_of_a_long_error(proxy_error):
    """The reason for all of this; when this fails, Spark does not any more."""
    with pytest.raises(Py4JJavaError, match="StackOverflowError"):
        proxy_error.findFirstIn(PROXY_ERROR + "\tat java.base/java.lang.Thread.run(Thread.java:840)\n" * 2000)


def test_interruption_is_recognized(proxy_error, interrupted):
    found = without_stack_traces(interrupted)
    assert isinstance(found, JavaError)
    assert proxy_error.findFirstIn(as_spark_reads_it(found)).isDefined()


def test_interruption_among_the_causes_is_recognized(proxy_error, interrupted):
    error = RuntimeError("the micro-batch was not sent")
    error.__cause__ = interrupted
    found = without_stack_traces(error)
    assert proxy_error.findFirstIn(as_spark_reads_it(found)).isDefined()


def test_other_error_of_java_is_told_in_short(not_an_address):
    found = without_stack_traces(not_an_address)
    text = as_spark_reads_it(found)
    assert "java.net.URISyntaxException" in text
    assert "\tat " not in text
    assert PROXY_ERROR not in text
    assert len(str(found)) == TEXT_MAX


def test_error_keeps_its_type_and_loses_the_stack_trace_it_came_from(not_an_address):
    error = ValueError("the micro-batch was not sent")
    error.__cause__ = RuntimeError("a task failed")
    error.__cause__.__context__ = not_an_address
    found = without_stack_traces(error)
    assert found is error
    assert PROXY_ERROR not in as_spark_reads_it(found)


def test_error_of_python_keeps_its_causes():
    error = ValueError("the transaction was aborted")
    error.__cause__ = ConnectionError("refused")
    assert without_stack_traces(error) is error
    assert "refused" in as_spark_reads_it(error)


def told(error: Exception) -> str:
    with pytest.raises(type(error)) as raised:
        raise_for_spark(error)
    return as_spark_reads_it(raised.value)


def test_cause_is_told_before_the_frames_and_what_it_was_raised_from_after_them():
    error = ValueError("the transaction was aborted")
    error.__cause__ = ConnectionError("refused")
    first, *_, reason = told(error).splitlines()
    assert first == "oncelog.spark.causes.WriteFailed: ValueError: the transaction was aborted"
    assert reason == "because of ConnectionError: refused"


def test_interruption_that_is_told_is_recognized(proxy_error, interrupted):
    with pytest.raises(JavaError) as raised:
        raise_for_spark(interrupted)
    assert proxy_error.findFirstIn(as_spark_reads_it(raised.value)).isDefined()


def test_error_is_told_when_java_has_ended():
    class Captured(PySparkException):
        def __str__(self) -> str:
            raise Py4JNetworkError("Java has ended")

    with pytest.raises(Captured) as raised:
        raise_for_spark(Captured("unseen"))
    assert str(raised.value.__cause__) == "Captured"
