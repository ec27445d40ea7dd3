"""The options of the source and the sink: names, defaults, and what becomes of each.

Every option that Spark documents for its Kafka source and sink has a row, and so has every setting of Kafka's Java
consumer, with the prefix `kafka.`. docs/spark-options.md is written from the rows.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from types import MappingProxyType

logger = logging.getLogger("oncelog.spark")

FAMILY = ".*"
"""A row whose name ends so is for every name that begins like it."""


class OptionError(ValueError):
    """An option is missing, contradicts another, or means nothing here. The message says which and why."""


class Scope(Enum):
    """Who takes an option."""

    SOURCE = "source"
    SINK = "sink"
    BOTH = "source and sink"


class Treatment(Enum):
    """What becomes of an option that is given."""

    SUPPORTED = "supported"
    REFUSED = "refused"
    INERT = "accepted without effect"


@dataclass(frozen=True, slots=True)
class Option:
    """One row. `default` is the text that stands for a missing option, None where nothing does.

    `meaning` is a sentence: what a supported option does, why another is refused or has no effect.
    """

    name: str
    default: str | None
    scope: Scope
    treatment: Treatment
    meaning: str

    def is_for(self, scope: Scope) -> bool:
        return self.scope in (scope, Scope.BOTH)

    def covers(self, name: str) -> bool:
        """Whether the row is about an option of this name. Case does not count."""
        own = self.name.lower()
        return name.lower().startswith(own.removesuffix("*")) if self.is_family else name.lower() == own

    @property
    def is_family(self) -> bool:
        return self.name.endswith(FAMILY)

    def spelling(self, name: str) -> str:
        """The name of an option as its user knows it. Spark tells it in lower case."""
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
    """Refuse what has no effect that its user could mean. No message holds a value: it may be a password.

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
    """Say in one warning which of the options are accepted and change nothing."""
    rows = tuple(rows)
    found = [(name, row) for name in sorted(options) if (row := find(rows, name, scope)) is not None]
    inert = [row.spelling(name) for name, row in found if row.treatment is Treatment.INERT]
    if inert:
        logger.warning(
            "oncelog: these options of the %s only tune Kafka's Java client and change nothing here: %s",
            scope.value,
            ", ".join(inert),
        )
