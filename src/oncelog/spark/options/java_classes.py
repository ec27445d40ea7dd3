"""Java's classes of characters, as sets of the characters that a topic name may have.

A topic name is made of ASCII letters, digits, '.', '_' and '-' (Kafka's rule for legal names). Whatever else a class holds
cannot change what it matches.
"""

from __future__ import annotations

import string
import unicodedata
from functools import cache

Members = frozenset[str]

LETTERS = frozenset(string.ascii_letters)
LOWER = frozenset(string.ascii_lowercase)
UPPER = frozenset(string.ascii_uppercase)
DIGITS = frozenset(string.digits)
MARKS = frozenset("._-")
LEGAL = LETTERS | DIGITS | MARKS
NONE: Members = frozenset()

PREDEFINED = {
    "d": DIGITS,
    "D": LEGAL - DIGITS,
    "w": LETTERS | DIGITS | {"_"},
    "W": frozenset(".-"),
    **dict.fromkeys("shv", NONE),
    **dict.fromkeys("SHV", LEGAL),
}
"""Classes that are one letter after a backslash."""

_POSIX = {
    "Lower": LOWER,
    "Upper": UPPER,
    "ASCII": LEGAL,
    "Alpha": LETTERS,
    "Digit": DIGITS,
    "Alnum": LETTERS | DIGITS,
    "Punct": MARKS,
    "Graph": LEGAL,
    "Print": LEGAL,
    "Blank": NONE,
    "Cntrl": NONE,
    "XDigit": frozenset(string.hexdigits),
    "Space": NONE,
}
_JAVA = {
    "javaLowerCase": LOWER,
    "javaUpperCase": UPPER,
    "javaTitleCase": NONE,
    "javaAlphabetic": LETTERS,
    "javaLetter": LETTERS,
    "javaDigit": DIGITS,
    "javaLetterOrDigit": LETTERS | DIGITS,
    "javaWhitespace": NONE,
    "javaSpaceChar": NONE,
    "javaISOControl": NONE,
}
_BINARY = {
    "ALPHABETIC": LETTERS,
    "LETTER": LETTERS,
    "LOWERCASE": LOWER,
    "UPPERCASE": UPPER,
    "TITLECASE": NONE,
    "IDEOGRAPHIC": NONE,
    "PUNCTUATION": MARKS,
    "CONTROL": NONE,
    "WHITE_SPACE": NONE,
    "DIGIT": DIGITS,
    "HEX_DIGIT": frozenset(string.hexdigits),
    "ASSIGNED": LEGAL,
}
_SCRIPTS = {"LATIN": LETTERS, "COMMON": DIGITS | MARKS}
_CATEGORIES = frozenset(
    {
        *(
            "L",
            "Lu",
            "Ll",
            "Lt",
            "Lm",
            "Lo",
            "M",
            "Mn",
            "Mc",
            "Me",
            "N",
            "Nd",
            "Nl",
            "No",
            "Z",
            "Zs",
            "Zl",
            "Zp",
            "P",
            "Pc",
        ),
        *("Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "C", "Cc", "Cf", "Co", "Cs", "Cn"),
    }
)


@cache
def named(name: str) -> Members | None:
    """The members of \\p{name}; None for a name that is not known here."""
    kind, separator, value = name.partition("=")
    if separator:
        if kind.lower() in ("sc", "script"):
            return _SCRIPTS.get(value.upper())
        return _category(value) if kind.lower() in ("gc", "general_category") else None
    if name in _POSIX or name in _JAVA:
        return _POSIX.get(name, _JAVA.get(name))
    if name.startswith("Is"):
        bare = name.removeprefix("Is")
        return _BINARY.get(bare.upper(), _SCRIPTS.get(bare.upper(), _category(bare)))
    return _category(name)


def _category(name: str) -> Members | None:
    if name not in _CATEGORIES:
        return None
    return frozenset(character for character in LEGAL if unicodedata.category(character).startswith(name))


def depends_on_case(members: Members) -> bool:
    """Whether a class tells lower from upper case: what Java makes of it under the flag i differs by its version."""
    return members != {letter.swapcase() for letter in members}
