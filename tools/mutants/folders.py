"""The folders of the source that are changed, and the tests that stand for each."""

from __future__ import annotations

from typing import NamedTuple


class Folder(NamedTuple):
    name: str
    """From src/oncelog."""
    tests: str
    further: tuple[str, ...] = ()
    """Other tests that may run its lines: asked where its own find nothing."""
    with_java: tuple[str, ...] = ()
    """Tests whose Python runs in Spark's processes, where nobody sees which lines they run: asked last, all of them."""


_BROKER = "tests/broker"
FOLDERS = [
    Folder("coordination", "tests/coordination", ("tests/groups", "tests/transactions", _BROKER)),
    Folder("transactions", "tests/transactions", (_BROKER,)),
    Folder("replication", "tests/replication", (_BROKER,)),
    Folder("groups", "tests/groups", (_BROKER,)),
    Folder("client/producer", "tests/client/producer", ("tests/client",)),
    Folder("log", "tests/log", ("tests/cli/log", _BROKER)),
    Folder(
        "spark/source",
        "tests/spark/source",
        with_java=(
            "tests/spark/source",
            "tests/spark/test_source_live.py",
            "tests/spark/test_source_losses.py",
            "tests/spark/test_source_odd_logs.py",
        ),
    ),
    Folder(
        "spark/sink",
        "tests/spark/sink",
        with_java=("tests/spark/sink", "tests/spark/test_sink_live.py", "tests/spark/test_format_writes.py"),
    ),
]


def folder_of(path: str) -> Folder:
    return next(folder for folder in FOLDERS if path.startswith(f"src/oncelog/{folder.name}/"))
