"""Numbers are read and written as Java does; `tests/conformance/test_settings.py` asks Apache Kafka for the same."""

import math
from collections.abc import Callable

import pytest

from oncelog.broker.config.java_numbers import double, text_of_double, trimmed, whole_number


def is_read(read: Callable[[str], float], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("+5", 5),
        ("-5", -5),
        ("007", 7),
        ("-0", 0),
        ("\u0661", 1),
        ("\uff11\uff12", 12),
        ("9" * 30, 10**30 - 1),
    ],
)
def test_whole_number_is_read(text: str, value: int) -> None:
    assert whole_number(text) == value


@pytest.mark.parametrize(
    "text", ["", " 5", "1_000", "0x10", "5L", "5.0", "--5", "+", "\u00b2", "\U0001d7d3", "\u00a05", "9" * 5000]
)
def test_text_that_java_reads_as_no_whole_number_is_none(text: str) -> None:
    assert not is_read(whole_number, text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("+1e-2D", 0.01),
        ("1f", 1.0),
        ("0x1p-1", 0.5),
        ("-0X.8P0d", -0.5),
        ("-Infinity", -math.inf),
        ("1e400", math.inf),
        ("-0x1p9999", -math.inf),
        ("1e-400", 0.0),
    ],
)
def test_double_is_read(text: str, value: float) -> None:
    assert double(text) == value


@pytest.mark.parametrize(
    "text", ["", ".", "e5", "nan", "inf", "infinity", "1_0.5", "0x1", "0x.p1", "1dd", "1e", "\u0661", " 1", "Infinityd"]
)
def test_text_that_java_reads_as_no_double_is_none(text: str) -> None:
    assert not is_read(double, text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (2.0, "2.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (1e-5, "1.0E-5"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-12345678.5, "-1.23456785E7"),
        (5e-324, "5.0E-324"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (double("NaN"), "NaN"),
    ],
)
def test_double_is_written(value: float, text: str) -> None:
    assert text_of_double(value) == text


def test_blanks_that_are_taken_away_are_javas() -> None:
    assert trimmed(" \t\x00\x1f5\r\n") == "5"
    assert trimmed("\u00a05\u2003") == "\u00a05\u2003"
