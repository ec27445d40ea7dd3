"""What the extras install, against what PySpark itself imports: no feature that a stream can use asks for more."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pyspark

ROOT = Path(__file__).parents[2]
INSTALLED = Path(pyspark.__file__).parent

CONNECT = ("sql/connect/", "pipelines/", "errors/exceptions/connect.py")
"""The parts of PySpark that run over Spark Connect."""

NO_STREAM = ("examples/", "ml/", "mllib/", "pandas/", "testing/", "sql/plot/", "sql/tests/", "tests/", "cloudpickle/")
"""The parts of PySpark that no stream uses."""

DOES_WITHOUT = {
    "IPython": "a notebook, which is there or not",
    "ipykernel": "a notebook, which is there or not",
    "memory_profiler": "a profiler, which PySpark says how to install",
    "flameprof": "a drawing of a profile, which PySpark says how to install",
    "pystack": "a dump of threads, which PySpark says how to install",
    "graphviz": "a drawing of a plan, which PySpark says how to install",
    "plotly": "a plot, which PySpark says how to install",
    "psutil": "the memory that a worker takes, of which PySpark asks Linux itself otherwise",
    "pyspark_connect": "an edition of PySpark without its Java half, which is there or not",
}
"""What PySpark looks for and needs for no stream."""


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module if node.module.startswith("google.") else node.module.partition(".")[0]


def imports(*, over_connect: bool) -> set[str]:
    """The packages that one half of PySpark imports, beside Python's own and its own."""
    files = {file.relative_to(INSTALLED).as_posix(): file for file in INSTALLED.rglob("*.py")}
    half = [
        file
        for name, file in files.items()
        if not name.startswith(NO_STREAM) and name.startswith(CONNECT) is over_connect
    ]
    return (
        {module for file in half for module in imported(file)}
        - set(sys.stdlib_module_names)
        - {"pyspark"}
        - set(DOES_WITHOUT)
    )


def distributions(requirements: list[str]) -> set[str]:
    """The names of what is installed for these requirements, and for theirs."""
    found: set[str] = set()
    waiting = [(requirement, "") for requirement in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        matched = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", requirement)
        assert matched is not None, requirement
        condition = re.search(r'extra == "([\w-]+)"', requirement)
        if condition is not None and condition[1] != extra:
            continue
        name = normalized(matched[1])
        if name == "oncelog":
            waiting += [(one, "") for part in (matched[2] or "").split(",") for one in extras()[part]]
            continue
        found.add(name)
        for part in (matched[2] or "").split(","):
            waiting += [(one, part) for one in metadata.requires(name) or [] if part or "extra ==" not in one]
    return found


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def extras() -> dict[str, list[str]]:
    extras: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    return extras


def homes(module: str) -> set[str]:
    """The distributions that bring a module."""
    if module.startswith("google."):
        return {"google.protobuf": {"protobuf"}, "google.rpc": {"googleapis-common-protos"}}[
            ".".join(module.split(".")[:2])
        ]
    return {normalized(name) for name in metadata.packages_distributions().get(module, [module])}


def missing(modules: set[str], extra: str) -> set[str]:
    there = distributions([f"oncelog[{extra}]"])
    return {module for module in modules if not homes(module) & there}


def test_what_pyspark_imports_for_a_stream_is_in_the_extra_spark() -> None:
    modules = imports(over_connect=False)
    assert {"google.protobuf", "pandas", "pyarrow", "py4j"} <= modules
    assert missing(modules, "spark") == set()


def test_what_pyspark_imports_over_connect_is_in_the_extra_connect() -> None:
    modules = imports(over_connect=True)
    assert {"grpc", "grpc_status", "google.rpc", "zstandard", "yaml"} <= modules
    assert missing(modules, "connect") == set()
    assert missing(modules, "spark") != set()
