"""What one setting is: its name, its type, what it may be, whether it may change at run time, and what it does here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Value = bool | int | float | str
"""A list is its items with commas between them, and a setting without a value is None."""
Kind = Literal["boolean", "string", "int", "short", "long", "double", "list", "class", "password"]

SHORT = 2**15 - 1
INT = 2**31 - 1
LONG = 2**63 - 1
TEXT_BYTES_MAX = 2**15 - 1


class SettingError(ValueError):
    """A setting has an unknown name or a value that is not allowed. The message names the setting, the value and what is."""


class Effect(StrEnum):
    """What becomes of a setting that is accepted."""

    FULL = "does what it says"
    STORED = "is stored and shown"
    NONE = "means nothing here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. `topic_name` is the per-topic setting that overrides it, where Kafka has one.

    Without a default, `type` says what it is. `is_dynamic`: a running broker takes a new value. `checks` says what else
    is wrong with a value, or None.
    """

    name: str
    default: Value | None
    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    topic_name: str | None = None
    type: Kind | None = None
    is_dynamic: bool = False
    effect: Effect = Effect.FULL
    checks: Callable[[Value], str | None] | None = None

    def parse(self, text: str) -> Value:
        """Turn text into a value. Raises SettingError, also for text that no answer could tell."""
        if len(text.encode()) > TEXT_BYTES_MAX:
            raise SettingError(f"{self.name} is not allowed: its value has more than {TEXT_BYTES_MAX} bytes")
        value = self._parse(text.strip())
        problem = None if self.checks is None else self.checks(value)
        if problem is not None:
            raise SettingError(f"{self.name}={text} is not allowed: {problem}")
        return value

    def _parse(self, text: str) -> Value:
        match self.kind:
            case "boolean":
                return self._parse_bool(text)
            case "int" | "short" | "long":
                return int(self._bounded(text, self._number(text, int, "a whole number")))
            case "double":
                return self._bounded(text, self._number(text, float, "a number"))
            case "list":
                return self._parse_list(text)
        if self.choices and text not in self.choices:
            raise SettingError(f"{self.name}={text} is not allowed: it is one of {', '.join(self.choices)}")
        return text

    def _parse_bool(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise SettingError(f"{self.name}={text} is not allowed: it is true or false")
        return text.lower() == "true"

    def _parse_list(self, text: str) -> str:
        items = list(dict.fromkeys(items_of(text)))
        for item in items:
            if self.choices and item not in self.choices:
                raise SettingError(f"{self.name}={text} is not allowed: each item is one of {', '.join(self.choices)}")
        return ",".join(items)

    def _number(self, text: str, read: Callable[[str], float], what: str) -> float:
        try:
            return read(text)
        except ValueError:
            raise SettingError(f"{self.name}={text} is not {what}") from None

    def _bounded(self, text: str, value: float) -> float:
        if self.minimum is not None and value < self.minimum:
            raise SettingError(f"{self.name}={text} is not allowed: it is at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise SettingError(f"{self.name}={text} is not allowed: it is at most {self.maximum}")
        return value

    @property
    def kind(self) -> Kind:
        if self.type is not None:
            return self.type
        assert self.default is not None, f"{self.name} has neither a type nor a default"
        if isinstance(self.default, bool):
            return "boolean"
        if isinstance(self.default, int):
            return "int" if self.maximum is not None and self.maximum < 2**31 else "long"
        return "double" if isinstance(self.default, float) else "string"

    @property
    def documentation(self) -> str:
        """What is said of it to users."""
        return self.help if self.effect is Effect.FULL else f"This {self.effect}: {self.help[0].lower()}{self.help[1:]}"

    @property
    def is_sensitive(self) -> bool:
        return self.kind == "password"


def items_of(text: str) -> list[str]:
    """The items of a list as text."""
    return [item for part in text.split(",") if (item := part.strip())]


def text_of(value: Value | None) -> str | None:
    """A value as Kafka writes it."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
