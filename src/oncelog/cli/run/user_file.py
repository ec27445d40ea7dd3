"""The user's file that `oncelog run` takes its function from."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Parameter, Signature
from pathlib import Path
from runpy import run_path
from typing import Any

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.spark.causes import cause_of
from oncelog.spark.user_function import FunctionError, Transform, inputs_of, output_topic


@dataclass(frozen=True, slots=True)
class UserFile:
    """A file, and the name of a function in it. It may use Spark where it is imported, so a session has to be there before."""

    path: Path
    function: str

    def check(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Raises CommandError for mistakes that show without running the file, before Spark starts."""
        try:
            tree = ast.parse(self.path.read_bytes(), str(self.path))
        except (SyntaxError, ValueError) as error:
            raise self._does_not_load(error) from error
        named = [node for node in ast.walk(tree) if self._is_named(node)]
        if not named:
            raise self._lacks_function()
        with _wrong_use():
            output_topic(targets)
            if (
                len(named) == 1
                and not getattr(named[0], "decorator_list", None)
                and isinstance(named[0], ast.FunctionDef)
                and named[0] in tree.body
            ):
                inputs_of(_as_declared(named[0]), sources)

    def load(self, sources: Sequence[str]) -> Transform:
        """Import the file and return the function. Raises CommandError."""
        sys.path.insert(0, str(self.path.resolve().parent))
        try:
            found: Transform | None = run_path(str(self.path)).get(self.function)
        except Exception as error:
            raise self._does_not_load(error) from error
        if not callable(found):
            raise self._lacks_function()
        with _wrong_use():
            inputs_of(found, sources)
        return found

    def _is_named(self, node: ast.AST) -> bool:
        """True if a part of the file may define the name."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return node.name == self.function
            case ast.Name():
                return node.id == self.function and isinstance(node.ctx, ast.Store)
            case ast.alias():
                return (node.asname or node.name.partition(".")[0]) in (self.function, "*")
        return False

    def _does_not_load(self, error: Exception) -> CommandError:
        return CommandError(f"{self.path} does not load: {cause_of(error)}", ExitStatus.USAGE)

    def _lacks_function(self) -> CommandError:
        return CommandError(f"{self.path} has no function {self.function}", ExitStatus.USAGE)


def user_file(spec: str) -> UserFile:
    """Read FILE.py:FUNCTION. Raises CommandError."""
    file, separator, name = spec.rpartition(":")
    if not separator or not name:
        raise CommandError(f"{spec} is not FILE.py:FUNCTION", ExitStatus.USAGE)
    if not Path(file).is_file():
        raise CommandError(f"there is no file {file}", ExitStatus.USAGE)
    return UserFile(Path(file), name)


@contextmanager
def _wrong_use() -> Iterator[None]:
    try:
        yield
    except FunctionError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from error


def _as_declared(definition: ast.FunctionDef) -> Transform:
    """A function with the name and the parameters of the definition, which is not run."""

    def declared(*inputs: Any) -> Any:
        raise AssertionError("only its parameters are asked for")

    given = definition.args
    positional = [*given.posonlyargs, *given.args]
    needed = len(positional) - len(given.defaults)
    parameters = [
        Parameter(one.arg, Parameter.POSITIONAL_OR_KEYWORD, default=_default(is_there=place >= needed))
        for place, one in enumerate(positional)
    ]
    if given.vararg is not None:
        parameters.append(Parameter(given.vararg.arg, Parameter.VAR_POSITIONAL))
    for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        parameters.append(Parameter(one.arg, Parameter.KEYWORD_ONLY, default=_default(is_there=default is not None)))
    declared.__name__ = definition.name
    declared.__dict__["__signature__"] = Signature(parameters)
    return declared


def _default(*, is_there: bool) -> object:
    return None if is_there else Parameter.empty
