"""Changes functions of modules that are imported: what they run from now on is the code of another source."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

Functions = dict[CodeType, list[FunctionType]]


def functions_below(directory: Path) -> dict[str, Functions]:
    """Every function of the modules that are imported, by its file and its code."""
    found: dict[str, Functions] = {}
    below = f"{directory}/"
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(below):
            found.setdefault(one.__code__.co_filename, {}).setdefault(one.__code__, []).append(one)
    return found


def plant(file: Path, before: bytes, after: bytes, functions: Functions) -> bool:
    """Whether functions of a file run what its new source says, and no other code has changed: that ran at the import."""
    both = _outermost(_compiled(file, before), _compiled(file, after))
    changed = [(old, new) for old, new in both if old != new]
    return bool(changed) and all(_replace(old, new, functions) for old, new in changed)


def _compiled(file: Path, source: bytes) -> CodeType:
    return compile(source, str(file), "exec", dont_inherit=True)


def _outermost(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The functions of a module and of its classes, in both sources."""
    for one, other in zip(_nested(old), _nested(new), strict=True):
        if _is_function(one):
            yield one, other
        else:
            yield from _outermost(one, other)


def _nested(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _is_function(code: CodeType) -> bool:
    """The body of a class has its names in a dictionary."""
    return bool(code.co_flags & 0x2)


def _replace(old: CodeType, new: CodeType, functions: Functions) -> bool:
    made = functions.get(old, [])
    if any(function.__code__.co_freevars != new.co_freevars for function in made):
        return False
    for function in made:
        function.__code__ = new
    inner, changed = _nested(old), _nested(new)
    if len(inner) != len(changed):
        # Closures that are there already: nobody knows which of the new ones each is.
        return not any(_made_within(one, functions) for one in inner)
    return all(one == other or _replace(one, other, functions) for one, other in zip(inner, changed, strict=True))


def _made_within(code: CodeType, functions: Functions) -> bool:
    return code in functions or any(_made_within(one, functions) for one in _nested(code))
