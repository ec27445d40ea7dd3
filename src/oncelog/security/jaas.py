"""The line of Java's login configuration in Kafka's `sasl.jaas.config`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

OPTION = "sasl.jaas.config"
_TOKEN = re.compile(
    r"""\s*(?: "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>(?:[^'\\]|\\.)*)' | (?P<mark>[=;]) | (?P<word>[^\s=;"']+) )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A class of Kafka's, by its simple name, and what it is told."""

    name: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """Read `package.Module required name="value" ...;`. Raises ValueError, which shows nothing of the text."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != ("mark", ";"):
        raise ValueError(f'{OPTION} is not of the form: Module required name="value" ...;')
    if ("mark", ";") in tokens[:-1]:
        raise ValueError(f"{OPTION} names several login modules; Kafka's clients take one")
    (_, module), (_, flag), *pairs = tokens[:-1]
    if flag.lower() not in {"required", "requisite", "sufficient", "optional"}:
        raise ValueError(f'{OPTION} is not of the form: Module required name="value" ...;')
    return LoginModule(module.rpartition(".")[2], _options(pairs))


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(f"{OPTION} has a quote that does not end")
        kind = str(found.lastgroup)
        value = found[kind]
        if kind in {"double", "single"}:
            value = _ESCAPE.sub(lambda escape: _CONTROLS.get(escape[1], escape[1]), value)
        tokens.append(("mark" if kind == "mark" else "text", value))
        position = found.end()
    return tokens


def _options(tokens: list[tuple[str, str]]) -> dict[str, str]:
    options: dict[str, str] = {}
    for index in range(0, len(tokens), 3):
        match tokens[index : index + 3]:
            case [("text", name), ("mark", "="), ("text", value)]:
                options[name] = value
            case _:
                raise ValueError(f'{OPTION}: an option is not of the form name="value"')
    return options
