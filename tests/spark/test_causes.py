"""The words about an error: a sentence, and the place in the user's code."""

from __future__ import annotations

import pytest

from oncelog.spark import FenceError, FunctionError
from oncelog.spark.causes import Cause, cause_of, reasons_of

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
        ("oncelog.spark.sink.unwritable.RowError: no column `value`", Cause("RowError", "no column `value`")),
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
