"""Names of a package that are imported when they are first asked for: all at once they are slow to import."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module


def imported(package: str, homes: Mapping[str, str], name: str) -> object:
    """The value of a name for the package's `__getattr__`; `homes` has the module of each name. Raises AttributeError."""
    home = homes.get(name)
    if home is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    found: object = getattr(import_module(home), name)
    setattr(sys.modules[package], name, found)
    return found
