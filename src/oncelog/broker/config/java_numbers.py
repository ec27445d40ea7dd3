"""Numbers as Java reads and writes them, for settings have Java's syntax: Python's own takes `1_000` and refuses `1d`."""

from __future__ import annotations

import math
import re

_BLANKS = "".join(map(chr, range(33)))
_WHOLE = re.compile(r"[+-]?\d+")
_BEYOND_UNICODES_FIRST_PLANE = re.compile("[\U00010000-\U0010ffff]")
_DECIMAL = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_NAMED = re.compile(r"[+-]?(NaN|Infinity)")


def trimmed(text: str) -> str:
    """Without the blanks that Java's String.trim takes away, which are not those of Unicode."""
    return text.strip(_BLANKS)


def whole_number(text: str) -> int:
    """Read what Integer.parseInt and Long.parseLong take, but for their limits. Raises ValueError."""
    if _WHOLE.fullmatch(text) is None or _BEYOND_UNICODES_FIRST_PLANE.search(text) is not None:
        raise ValueError(text)
    return int(text)


def double(text: str) -> float:
    """Read what Double.parseDouble takes. Raises ValueError."""
    if _NAMED.fullmatch(text) is not None:
        return float(text)
    if (found := _DECIMAL.fullmatch(text)) is not None:
        return float(found[1])
    if (found := _HEXADECIMAL.fullmatch(text)) is not None:
        return _from_hexadecimal(found[1])
    raise ValueError(text)


def _from_hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def text_of_double(value: float) -> str:
    """Write what Double.toString does: an exponent below 0.001 and from 10,000,000 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    # Not imported at start: no setting is so small or so large until somebody makes it so.
    from decimal import Decimal

    digits, exponent = f"{Decimal(repr(value)).normalize():E}".split("E")
    return f"{digits}{'' if '.' in digits else '.0'}E{int(exponent)}"
