"""The regular expression of `subscribePattern`: written for Java, as in Spark, and read by Python's `re`.

A pattern holds only what both languages read alike in a topic's name: ASCII letters, digits, '.', '_' and '-'. Anything else is
refused by name.
"""

from __future__ import annotations

import re
from functools import cache

_ESCAPE = r"[dDsSwWafnrtv] | x[0-9A-Fa-f]{2} | u[0-9A-Fa-f]{4} | [^A-Za-z0-9]"
_FLAGS = re.compile(r"\(\?[ims]+\)")
"""Java takes flags anywhere; Python at the beginning. m and s are about line ends, which no name has."""
_ALIKE = re.compile(
    rf"""
      [^\\\[(*+?{{]
    | (?: [*+?] | \{{[0-9]+(?:,[0-9]*)?\}} ) \?? (?!\+)
    | \\ (?: {_ESCAPE} | [AbBZ] )
    | \[ (?: \^(?!\]) | (?!\^) ) (?: [^]\[\\&|~-] | ([&|~-])(?!\1) | \\ (?: {_ESCAPE} ) )+ \]
    | \( (?: (?!\?) | \? (?: [:=!] | <[=!] | [ims]*(?:-[ims]+)?: | <(?P<name>[A-Za-z][A-Za-z0-9]*)> ) )
    """,
    re.VERBOSE,
)
_ADVICE = (
    (r"\\[pP](?:\{[^}]*\}?|.?)", "write the characters out, as in [a-z]"),
    (r"\\[QE]", r"write a backslash before each sign, as in a\.b"),
    (r"\\[zG]", "write $ for the end and ^ for the beginning"),
    (r"\\[hHRVXN]", "a topic's name has only letters, digits, '.', '_' and '-'"),
    (r"\\(?:[1-9]|k)", "write out what the group stands for"),
    (r"\\[0ceuUx]", r"write the character itself, or \x and two digits"),
    (r"\\.?", r"write one of \A, \b, \B, \d, \D, \s, \S, \w, \W and \Z, or the character itself"),
    (
        r"\[[^\]]*\]?",
        r"write one list of characters, as in [a-z_], without &&, and with a backslash before a bracket in it",
    ),
    (r"\(\?[a-zA-Z]*(?:-[a-zA-Z]*)?[:)]", "write the flags i, m and s at the beginning of the pattern or in (?i:...)"),
    (r"\(\?>|(?:[*+?]|\{[0-9,]*\})\+", "write the quantifier without +, and (?:...) for (?>...)"),
    (r"\(\?.?", "write one of (?:...), (?=...), (?!...), (?<=...), (?<!...) and (?<name>...)"),
    (r".", r"write one of *, +, ?, {2}, {2,} and {2,3}, or a backslash before a sign that stands for itself"),
)


class PatternError(ValueError):
    """A pattern holds what Java and Python do not read alike. The message says what, and what to write."""


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern for `search`. Raises PatternError."""
    flags = _FLAGS.match(pattern)
    pieces, at = ([flags[0]], flags.end()) if flags else ([], 0)
    while at < len(pattern):
        found = _ALIKE.match(pattern, at)
        if found is None:
            raise PatternError(_refusal(pattern, at))
        pieces.append(f"(?P<{found['name']}>" if found["name"] else found[0])
        at = found.end()
    try:
        return re.compile("".join(pieces), re.ASCII)
    except (re.error, OverflowError) as error:
        raise PatternError(f"Python's re refuses it: {str(error).partition(' at position')[0]}") from None
    except RecursionError:
        raise PatternError("its groups are nested too deeply") from None


def _refusal(pattern: str, at: int) -> str:
    for shape, advice in _ADVICE:
        if found := re.compile(shape, re.DOTALL).match(pattern, at):
            return f"{found[0]!r} at {at} is not read alike by Java and Python: {advice}"
    raise AssertionError("the last shape is any character's")
