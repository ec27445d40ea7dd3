"""The source of a function that is compiled once for a message's class."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import Field
from typing import Any


class FunctionSource:
    """The text of one function, line by line. The subclass that writes it knows the names that the text may use."""

    def __init__(self, first_line: str) -> None:
        self._lines = [first_line]
        self._depth = 1

    def _add(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    @contextmanager
    def _block(self, line: str) -> Iterator[None]:
        self._add(line)
        self._depth += 1
        yield
        self._depth -= 1

    def _function(self, title: str, known: dict[str, Any]) -> Any:
        """The function; a stack trace says `title` of it."""
        made: dict[str, Any] = {}
        exec(compile("\n".join(self._lines), f"<{title}>", "exec"), known, made)
        (function,) = made.values()
        return function


def kind_of(field: Field[Any]) -> tuple[Any, bool]:
    """The type of a field without its null, and whether it may be null."""
    kind: Any = field.type
    if not isinstance(kind, types.UnionType):
        return kind, False
    arms = typing.get_args(kind)
    return next(arm for arm in arms if arm is not types.NoneType), types.NoneType in arms
