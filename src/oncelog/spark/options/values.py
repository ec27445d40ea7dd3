"""Reading the values of options, which are text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

from oncelog.spark.options.table import Option, OptionError, Scope, Treatment, refuse_names

T = TypeVar("T")

INT32_MAX = 2**31 - 1
DURATION_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class OptionValues:
    """The options that a user gave, read by name. A missing one has the default of its row."""

    def __init__(
        self,
        rows: Iterable[Option],
        options: Mapping[str, str],
        scope: Scope,
        arguments: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Raises OptionError for a name that is refused or not known, as `refuse_names` does."""
        rows = tuple(rows)
        self._rows = {row.name.lower(): row for row in rows if row.is_for(scope)}
        self._options = {name.lower(): value for name, value in options.items()}
        refuse_names(rows, self._options, scope, arguments)

    def is_given(self, name: str) -> bool:
        return name.lower() in self._options

    def optional(self, name: str, read: Callable[[str], T]) -> T | None:
        """The value, None if it is not given. `read` raises a ValueError that says what the value has to be."""
        assert self._rows[name.lower()].treatment is Treatment.SUPPORTED, name
        text = self._options.get(name.lower())
        if text is None:
            return None
        try:
            return read(text)
        except ValueError as error:
            said = "" if name.startswith("kafka.") else f", not {text!r}"
            raise OptionError(f"option {name} has to be {error}{said}") from None

    def value(self, name: str, read: Callable[[str], T]) -> T:
        """The value, or the default that its row has."""
        given = self.optional(name, read)
        default = self._rows[name.lower()].default
        assert default is not None, name
        return read(default) if given is None else given


def boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def natural(text: str) -> int:
    if re.fullmatch(r"\s*[0-9]+\s*", text) is None:
        raise ValueError("a whole number, 0 or greater")
    return int(text)


def positive(text: str) -> int:
    if re.fullmatch(r"\s*[0-9]+\s*", text) is None or int(text) == 0:
        raise ValueError("a whole number greater than 0")
    return int(text)


def duration_ms(text: str) -> int:
    match = re.fullmatch(r"\s*([0-9]+)\s*([a-z]*)\s*", text.lower())
    if match is None or (match[2] or "ms") not in DURATION_MS:
        raise ValueError("a time such as 15m, 30s or 500ms")
    return int(match[1]) * DURATION_MS[match[2] or "ms"]


def positive_int32(text: str) -> int:
    return _int32(positive(text))


def natural_int32(text: str) -> int:
    return _int32(natural(text))


def _int32(number: int) -> int:
    if number > INT32_MAX:
        raise ValueError(f"at most {INT32_MAX}")
    return number


LOCAL = ("", "file")


def scheme_and_path(location: str) -> tuple[str, str]:
    """A scheme is what stands before a colon that no slash precedes, and an authority what follows on two slashes.

    The rest is the path as it is: a Path has neither query nor fragment, and nothing in it is escaped.
    """
    head, colon, rest = location.partition(":")
    scheme, path = (head, rest) if colon and "/" not in head else ("", location)
    if path.startswith("//"):
        path = "/" + path[2:].partition("/")[2]
    return scheme, path
