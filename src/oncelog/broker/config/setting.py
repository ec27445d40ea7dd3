"""The description of a setting: its name, its type, its bounds, its effect, and True if a running broker takes it anew."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Literal, NamedTuple, TypeVar

from oncelog.broker.config.java_numbers import double, text_of_double, trimmed, whole_number

Value = bool | int | float | str
"""A list is its items with commas between them, and a setting without a value is None."""
Kind = Literal["boolean", "string", "int", "short", "long", "double", "list", "class", "password"]
N = TypeVar("N", int, float)

SHORT = 2**15 - 1
INT = 2**31 - 1
LONG = 2**63 - 1
_LARGEST = {"short": SHORT, "int": INT, "long": LONG}
TEXT_BYTES_MAX = 2**15 - 1
HIDDEN = "[hidden]"
"""Shown in place of a secret, as in Kafka."""


class SettingError(ValueError):
    """A setting has an unknown name or a value that is not allowed. The message names the setting, the value and what is.

    It is in Kafka's own words where Kafka has some, for scripts look for them.
    """


class Effect(StrEnum):
    """The effect of a setting that is accepted."""

    FULL = "does what it says"
    NONE = "means nothing here"


class Setting(NamedTuple):
    """One setting. `topic_name` is the per-topic setting that overrides it, where Kafka has one.

    Without a default, `type` says what it is. `is_dynamic`: a running broker takes a new value. `is_per_broker`: there is none
    for all brokers. `is_own`: Kafka has no setting of this name. `checks` says what else is wrong with a value, or None.
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
    is_per_broker: bool = False
    is_own: bool = False
    effect: Effect = Effect.FULL
    checks: Callable[[Value], str | None] | None = None

    def parse(self, text: str) -> Value:
        """Turn text into a value. Raises SettingError, also for text that no answer could tell."""
        if len(text.encode()) > TEXT_BYTES_MAX:
            raise SettingError(f"{self.name} is not allowed: its value has more than {TEXT_BYTES_MAX} bytes")
        value = self._parse(text)
        problem = None if self.checks is None else self.checks(value)
        if problem is not None:
            shown = text_of(value) or ""
            raise self._refused(f"[{shown.replace(',', ', ')}]" if self.kind == "list" else shown, problem)
        return value

    def _refused(self, text: str, problem: str) -> SettingError:
        shown = HIDDEN if self.is_sensitive else text
        return SettingError(f"Invalid value {shown} for configuration {self.name}: {problem}")

    def _parse(self, text: str) -> Value:
        match self.kind:
            case "boolean":
                return self._parse_bool(text)
            case "int" | "short" | "long":
                return self._bounded(self._whole_number(text))
            case "double":
                return self._bounded(self._double(text))
            case "list":
                return self._parse_list(text)
        return self._chosen(trimmed(text))

    def _parse_bool(self, text: str) -> bool:
        word = trimmed(text).lower()
        if word not in ("true", "false"):
            raise self._refused(text, "Expected value to be either true or false")
        return word == "true"

    def _parse_list(self, text: str) -> str:
        if self.choices and trimmed(text):
            items = [trimmed(item) for item in text.split(",")]
            if "" in items:
                raise SettingError(f"Configuration '{self.name}' values must not be empty.")
            for item in items:
                self._chosen(item)
        return ",".join(dict.fromkeys(items_of(text)))

    def _chosen(self, text: str) -> str:
        if self.choices and text not in self.choices:
            raise self._refused(text, f"String must be one of: {', '.join(self.choices)}")
        return text

    def _whole_number(self, text: str) -> int:
        largest = _LARGEST[self.kind]
        try:
            value = whole_number(trimmed(text))
        except ValueError:
            value = largest + 1
        if not -largest - 1 <= value <= largest:
            raise self._refused(text, f"Not a number of type {self.kind.upper()}")
        return value

    def _double(self, text: str) -> float:
        try:
            return double(trimmed(text))
        except ValueError:
            raise self._refused(text, "Not a number of type DOUBLE") from None

    def _bounded(self, value: N) -> N:
        if self.minimum is not None and value < self.minimum:
            raise self._refused(text_of(value) or "", f"Value must be at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise self._refused(text_of(value) or "", f"Value must be no more than {self.maximum}")
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
        """The text for users: DescribeConfigs has it."""
        return self.help if self.effect is Effect.FULL else f"This {self.effect}: {self.help[0].lower()}{self.help[1:]}"

    @property
    def is_sensitive(self) -> bool:
        return self.kind == "password"


def items_of(text: str) -> list[str]:
    """The items of a list as text."""
    return [item for part in text.split(",") if (item := trimmed(part))]


def text_of(value: Value | None) -> str | None:
    """A value as Kafka writes it."""
    if value is None:
        return None
    if isinstance(value, float):
        return text_of_double(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
