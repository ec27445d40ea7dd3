"""What a micro-batch raises, as Spark reads it."""

from __future__ import annotations

import traceback

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from oncelog.spark.java_errors import PROXY_ERROR, TEXT_MAX, JavaError, raised_as_spark_tells_it, without_stack_traces

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
        raised_as_spark_tells_it(error)
    return as_spark_reads_it(raised.value)


def test_cause_is_told_before_the_frames_and_what_it_was_raised_from_after_them():
    error = ValueError("the transaction was aborted")
    error.__cause__ = ConnectionError("refused")
    first, *_, reason = told(error).splitlines()
    assert first == "oncelog.spark.java_errors.WriteFailed: ValueError: the transaction was aborted"
    assert reason == "because of ConnectionError: refused"


def test_interruption_that_is_told_is_recognized(proxy_error, interrupted):
    with pytest.raises(JavaError) as raised:
        raised_as_spark_tells_it(interrupted)
    assert proxy_error.findFirstIn(as_spark_reads_it(raised.value)).isDefined()


def test_error_is_told_when_java_has_ended():
    class Captured(PySparkException):
        def __str__(self) -> str:
            raise Py4JNetworkError("Java has ended")

    with pytest.raises(Captured) as raised:
        raised_as_spark_tells_it(Captured("unseen"))
    assert str(raised.value.__cause__) == "Captured"
