"""A regular expression of Java's, written as Python's.

It is meant for topic names: the two are found in the same names. Every class of characters is written out as the legal
characters that it holds, so that no difference between the two languages' classes is left. What Python has no word for
is refused by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, NoReturn

from oncelog.spark.options.java_classes import LEGAL, NONE, PREDEFINED, Members, depends_on_case, named

ESCAPES = {"a": "\a", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
ANCHORS = {"A": r"\A", "z": r"\Z", "Z": r"\Z", "b": r"\b", "B": r"\B"}
FLAGS = "idmsuU"
"""d, m and s are about the ends of lines, of which a name has none; U is about characters outside ASCII."""
LOOKS = ("?:", "?=", "?!", "?>", "?<=", "?<!")
QUANTIFIER = re.compile(r"[*+?]|\{[0-9]+(?:,[0-9]*)?\}")
GROUP_NAME = re.compile(r"\?<([A-Za-z][A-Za-z0-9]*)>")
INLINE_FLAGS = re.compile(r"\?([A-Za-z]*)(?:-([A-Za-z]*))?([:)])")


class PatternError(ValueError):
    """A pattern is none of Java's, or holds what Python has no word for. The message names it."""


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern for `search`. Raises PatternError."""
    translated = _Translation(pattern).whole()
    try:
        return re.compile(translated, re.ASCII)
    except re.error as error:
        if "look-behind" in str(error):
            raise PatternError("a look-behind of varying length is not supported") from None
        raise PatternError(f"it cannot be translated to Python: {error}") from None
    except (OverflowError, RecursionError):
        raise PatternError("it is too large") from None


class _Character(NamedTuple):
    """One character; `is_quoted` when it stands between \\Q and \\E, and so for itself."""

    text: str
    is_quoted: bool


def _unquoted(pattern: str) -> Iterator[_Character]:
    r"""Resolve \Q and \E, which Java does before anything else."""
    at, is_quoted = 0, False
    while at < len(pattern):
        pair = pattern[at : at + 2]
        if is_quoted and pair == r"\E":
            is_quoted, at = False, at + 2
        elif is_quoted:
            yield _Character(pattern[at], True)
            at += 1
        elif pair == r"\Q":
            is_quoted, at = True, at + 2
        else:
            for character in pair if pair[0] == "\\" else pair[0]:
                yield _Character(character, False)
                at += 1


class _Translation:
    def __init__(self, pattern: str) -> None:
        characters = list(_unquoted(pattern))
        self._quoted = [character.is_quoted for character in characters]
        self._text = "".join(character.text for character in characters)
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._closed: list[bool] = []
        """For each capturing group so far, whether it has ended."""
        self._names: dict[str, int] = {}

    def whole(self) -> str:
        translated = self._alternatives()
        if not self._is_over():
            self._fail("a ')' that closes nothing")
        return translated

    def _alternatives(self) -> str:
        several = [self._sequence()]
        while self._take("|"):
            several.append(self._sequence())
        return "|".join(several)

    def _sequence(self) -> str:
        pieces = []
        while not self._is_over() and not self._sees("|") and not self._sees(")"):
            atom = self._atom()
            if atom is not None:
                pieces.append(atom + self._quantifier())
        return "".join(pieces)

    def _quantifier(self) -> str:
        if self._is_over() or self._quoted[self._at]:
            return ""
        found = QUANTIFIER.match(self._text, self._at)
        if found is None:
            if self._sees("{"):
                self._fail("a '{' that begins no repetition")
            return ""
        self._at = found.end()
        kind = next((sign for sign in "?+" if self._take(sign)), "")
        return found[0] + kind

    def _atom(self) -> str | None:
        """One thing that a quantifier may follow; None where only flags change."""
        if self._take("("):
            return self._group()
        if self._take("["):
            return _written(self._class())
        if self._take("."):
            return _written(LEGAL)
        if self._take("^"):
            return r"(?:\A)"
        if self._take("$"):
            return r"(?:\Z)"
        if self._take("\\"):
            return self._escape()
        for sign in "*+?{":
            if self._sees(sign):
                self._fail(f"a {sign!r} with nothing to repeat")
        return _written(self._cases(self._next()))

    def _group(self) -> str | None:
        before = self._flags
        opening = "("
        number = None
        if (look := next((one for one in LOOKS if self._starts(one)), None)) is not None:
            self._at += len(look)
            opening += look
        elif self._sees("?"):
            name = GROUP_NAME.match(self._text, self._at)
            if name is not None:
                self._at = name.end()
                number = self._open(name[1])
                opening += f"?P<{name[1]}>"
            elif self._set_flags():
                return None
            else:
                opening += "?:"
        else:
            number = self._open()
        inner = self._alternatives()
        if not self._take(")"):
            self._fail("a '(' that is not closed")
        if number is not None:
            self._closed[number - 1] = True
        self._flags = before
        return f"(?:{opening}{inner}))" if "=" in opening or "!" in opening else f"{opening}{inner})"

    def _open(self, name: str | None = None) -> int:
        self._closed.append(False)
        if name is not None:
            if name in self._names:
                self._fail(f"two groups with the name {name}")
            self._names[name] = len(self._closed)
        return len(self._closed)

    def _set_flags(self) -> bool:
        """Take in (?i-u) or (?i-u: and say whether it is the first, which is for the rest of the group around it."""
        found = INLINE_FLAGS.match(self._text, self._at)
        if found is None:
            self._fail("a '(?' that is not known")
        on, off = found[1], found[2] or ""
        if "x" in on:
            raise PatternError("the flag x, which allows comments, is not supported")
        for flag in on + off:
            if flag not in FLAGS + "x":
                self._fail(f"a flag {flag}, which is not known")
        self._flags = (self._flags | set(on)) - set(off)
        self._at = found.end()
        return found[3] == ")"

    def _escape(self) -> str:
        sign = self._peek("a backslash at the end")
        if sign in ANCHORS:
            self._at += 1
            if self._sees("{"):
                raise PatternError(rf"\{sign}{{...}} is not supported")
            return f"(?:{ANCHORS[sign]})"
        if sign in "GN":
            raise PatternError(rf"\{sign} is not supported")
        if sign == "R":
            self._at += 1
            return _written(NONE)
        if sign == "X":
            self._at += 1
            return _written(LEGAL)
        if sign == "k":
            return self._named_reference()
        if sign in "123456789":
            return self._reference()
        return _written(self._escaped_members())

    def _named_reference(self) -> str:
        found = re.compile(r"k<([A-Za-z][A-Za-z0-9]*)>").match(self._text, self._at)
        if found is None or found[1] not in self._names:
            self._fail(r"a \k without the name of a group before it")
        self._at = found.end()
        return self._reference_to(self._names[found[1]])

    def _reference(self) -> str:
        number = int(self._next())
        while not self._is_over() and self._text[self._at] in "0123456789" and not self._quoted[self._at]:
            longer = number * 10 + int(self._text[self._at])
            if longer > len(self._closed):
                break
            number = longer
            self._at += 1
        return self._reference_to(number)

    def _reference_to(self, number: int) -> str:
        if number > len(self._closed) or not self._closed[number - 1]:
            raise PatternError(rf"\{number}, a reference to a group that does not end before it, is not supported")
        return rf"(?i:\{number})" if "i" in self._flags else rf"(?:\{number})"

    def _class(self) -> Members:
        """What is between brackets, the opening one being taken."""
        is_negated = self._take("^")
        members = self._members()
        if not self._take("]"):
            self._fail("a '[' that is not closed")
        return LEGAL - members if is_negated else members

    def _members(self) -> Members:
        """What is there up to a closing bracket. The first character cannot be that."""
        members: Members | None = None
        while members is None or not self._sees("]"):
            if self._starts("&&"):
                self._at += 2
                right = self._right_side()
                members = right if members is None else members & right
                continue
            some = self._class() if self._take("[") else self._range()
            members = some if members is None else members | some
        return members

    def _right_side(self) -> Members:
        """What follows &&: classes in brackets, then everything up to the bracket that closes."""
        members: Members | None = None
        while not self._sees("]") and not self._sees("&"):
            some = self._class() if self._take("[") else self._members()
            members = some if members is None else members | some
        if members is None:
            raise PatternError("&& with nothing on its right is not supported")
        return members

    def _range(self) -> Members:
        if self._take("\\"):
            if self._peek("a '[' that is not closed") in {*ANCHORS, *"GRXkN123456789"}:
                raise PatternError(rf"\{self._text[self._at]} between brackets is not supported")
            first = self._escaped()
            if not isinstance(first, str):
                return first
        else:
            first = self._next("a '[' that is not closed")
        if not self._sees("-") or any(self._starts(f"-{bracket}") for bracket in "[]"):
            return self._cases(first)
        self._at += 1
        last = self._escaped() if self._take("\\") else self._next("a '[' that is not closed")
        if not isinstance(last, str) or last < first:
            self._fail("a range of characters that ends before it begins")
        return frozenset(
            character for character in LEGAL if any(first <= one <= last for one in self._cases(character))
        )

    def _cases(self, character: str) -> Members:
        """The legal characters that a character stands for."""
        if "i" in self._flags and character.isascii():
            return frozenset((character.lower(), character.upper())) & LEGAL
        if "i" in self._flags and self._flags & {"u", "U"}:
            raise PatternError(f"{character!r}, which is not ASCII, under the flags i and u is not supported")
        return frozenset(character) & LEGAL

    def _escaped_members(self) -> Members:
        found = self._escaped()
        return self._cases(found) if isinstance(found, str) else found

    def _escaped(self) -> str | Members:
        """What a backslash means, inside brackets and outside: a character, or a class."""
        sign = self._next("a backslash at the end")
        if sign in PREDEFINED:
            return PREDEFINED[sign]
        if sign in "pP":
            return self._property(is_negated=sign == "P")
        if sign in ESCAPES:
            return ESCAPES[sign]
        if sign == "c":
            return chr(ord(self._next(r"a \c at the end")) ^ 64)
        if sign in "0xu":
            return self._by_number(sign)
        if sign.isascii() and sign.isalpha():
            self._fail(rf"\{sign}, which has no meaning")
        return sign

    def _by_number(self, sign: str) -> str:
        shape = {"0": r"([0-3]?[0-7]{1,2})", "x": r"([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]+)\}", "u": r"([0-9A-Fa-f]{4})"}[
            sign
        ]
        found = re.compile(shape).match(self._text, self._at)
        if found is None:
            self._fail(rf"a \{sign} without the number of a character")
        self._at = found.end()
        number = int(found[found.lastindex or 1], 8 if sign == "0" else 16)
        if number > 0x10FFFF:
            self._fail(rf"a \{sign} with the number of no character")
        return chr(number)

    def _property(self, *, is_negated: bool) -> Members:
        found = re.compile(r"\{([^{}]*)\}|(.)", re.DOTALL).match(self._text, self._at)
        if found is None:
            self._fail(r"a \p without a name")
        self._at = found.end()
        name = found[1] if found[2] is None else found[2]
        members = named(name)
        if members is None:
            raise PatternError(rf"\p{{{name}}} is not supported")
        if "i" in self._flags and depends_on_case(members):
            raise PatternError(rf"\p{{{name}}} under the flag i is not supported")
        return LEGAL - members if is_negated else members

    def _is_over(self) -> bool:
        return self._at >= len(self._text)

    def _sees(self, sign: str) -> bool:
        return not self._is_over() and self._text[self._at] == sign and not self._quoted[self._at]

    def _starts(self, signs: str) -> bool:
        return self._text.startswith(signs, self._at) and not any(self._quoted[self._at : self._at + len(signs)])

    def _take(self, sign: str) -> bool:
        if not self._sees(sign):
            return False
        self._at += 1
        return True

    def _peek(self, otherwise: str) -> str:
        if self._is_over():
            self._fail(otherwise)
        return self._text[self._at]

    def _next(self, otherwise: str = "an early end") -> str:
        character = self._peek(otherwise)
        self._at += 1
        return character

    def _fail(self, what: str) -> NoReturn:
        raise PatternError(f"{what}, at {self._at}")


def _written(members: Members) -> str:
    if not members:
        return "(?:(?!))"
    return "[" + "".join(re.escape(character) for character in sorted(members)) + "]"
