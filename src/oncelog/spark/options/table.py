"""The table of options of the source and the sink: names, defaults and treatment.

Every option that Spark documents for its Kafka source and sink has a row, and so has every setting of Kafka's Java
consumer, with the prefix `kafka.`. docs/spark-options.md is written from the rows.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from types import MappingProxyType
from typing import TypeVar

logger = logging.getLogger("oncelog.spark")

FAMILY = ".*"
"""The end of a row's name that stands for every name with this beginning."""


class OptionError(ValueError):
    """An option is missing, contradicts another, or means nothing here. The message says which and why."""


class Scope(Enum):
    """The parts that take an option."""

    SOURCE = "source"
    SINK = "sink"
    BOTH = "source and sink"


class Treatment(Enum):
    """The treatment of an option that is given."""

    SUPPORTED = "supported"
    REFUSED = "refused"
    INERT = "accepted without effect"


@dataclass(frozen=True, slots=True)
class Option:
    """One row. `default` is the text that stands for a missing option, None where nothing does.

    `meaning` is a sentence: the effect of a supported option, or the reason why another is refused or has no effect.
    """

    name: str
    default: str | None
    scope: Scope
    treatment: Treatment
    meaning: str

    def is_for(self, scope: Scope) -> bool:
        return self.scope in (scope, Scope.BOTH)

    def covers(self, name: str) -> bool:
        """True if the row is for this name. Case does not count."""
        own = self.name.lower()
        return name.lower().startswith(own.removesuffix("*")) if self.is_family else name.lower() == own

    @property
    def is_family(self) -> bool:
        return self.name.endswith(FAMILY)

    def spelling(self, name: str) -> str:
        """The name of an option as the documentation spells it. Spark passes it in lower case."""
        return name if self.is_family else self.name


def find(rows: Iterable[Option], name: str, scope: Scope) -> Option | None:
    """The row of an option. A row of its own comes before that of a family."""
    found = [row for row in rows if row.is_for(scope) and row.covers(name)]
    return min(found, key=lambda row: row.is_family, default=None)


def refuse_names(
    rows: Iterable[Option],
    options: Mapping[str, str],
    scope: Scope,
    arguments: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Refuse names that are not known or not allowed. No message holds a value: it may be a password.

    `arguments` are those of Python functions, with the options that say the same. Raises OptionError.
    """
    rows = tuple(rows)
    for name in sorted(options):
        row = find(rows, name, scope)
        if row is None:
            meant = arguments.get(name) or _nearest(rows, name, scope)
            advice = f"; did you mean {meant}?" if meant else ""
            raise OptionError(f"option {name} is not known to this {scope.value}, and would change nothing{advice}")
        if row.treatment is Treatment.REFUSED:
            raise OptionError(f"option {row.spelling(name)}: {row.meaning}")


def _nearest(rows: Iterable[Option], name: str, scope: Scope) -> str | None:
    names = [row.name for row in rows if row.is_for(scope) and not row.is_family]
    by_bare_name = {_bare(one): one for one in names}
    near = get_close_matches(_bare(name), by_bare_name, n=1)
    return by_bare_name[near[0]] if near else None


def _bare(name: str) -> str:
    """The name without what Python, Kafka and Spark spell differently: transactional_id is kafka.transactional.id."""
    return re.sub(r"[^a-z0-9]", "", name.lower().removeprefix("kafka."))


def warn_of_inert(rows: Iterable[Option], options: Mapping[str, str], scope: Scope) -> None:
    """Name in one warning the options that are accepted and change nothing."""
    rows = tuple(rows)
    found = [(name, row) for name in sorted(options) if (row := find(rows, name, scope)) is not None]
    inert = [row.spelling(name) for name, row in found if row.treatment is Treatment.INERT]
    if inert:
        logger.warning(
            "oncelog: these options of the %s only tune Kafka's Java client and change nothing here: %s",
            scope.value,
            ", ".join(inert),
        )


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
