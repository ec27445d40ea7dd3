"""The orders to pytest in a copy of the tree: which tests to run, whose lines to remember, and how much it may take."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

from tools.mutants.forks import Forks

MEMORY = 8 << 30
FILE_SIZE = 2 << 30
"""What a loop without an end may take of the machine."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mutants")
    group.addoption("--chosen", metavar="FILE", help="run those alone that it names, as a list in JSON, in its order")
    group.addoption(
        "--remember", metavar="FILE", help="say in it which test runs which line, and for how long each runs"
    )
    group.addoption(
        "--forks", metavar="QUESTIONS,ANSWERS", help="run what is asked for in forks, and say so in these files"
    )
    group.addoption("--limited", action="store_true", help="take no more than a share of the machine")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--limited"):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, FILE_SIZE))
    forks = config.getoption("--forks")
    if forks is not None:
        questions, answers = map(int, forks.split(","))
        config.pluginmanager.register(Forks(questions, answers, MEMORY, FILE_SIZE))
    remembered = config.getoption("--remember")
    if remembered is not None:
        config.pluginmanager.register(_Remembering(Path(remembered)))


def pytest_sessionstart(session: pytest.Session) -> None:
    """A test of another tree would find nothing."""
    import oncelog

    assert oncelog.__file__ is not None
    if not Path(oncelog.__file__).is_relative_to(session.config.rootpath):
        raise pytest.UsageError(f"the tests would run {oncelog.__file__}, which is not in {session.config.rootpath}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = config.getoption("--chosen")
    if chosen is not None:
        order = {test: number for number, test in enumerate(json.loads(Path(chosen).read_text()))}
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])


class _Remembering:
    """Which lines of the source each test runs, in a file of coverage; beside it, how long each test took and which passed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds: dict[str, float] = {}
        self._passed: set[str] = set()
        self._coverage = coverage.Coverage(
            data_file=str(file), source=["src/oncelog"], config_file=False, messages=False
        )
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        result = yield
        self._coverage.switch_context("")
        return result  # type: ignore[return-value]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        elif report.failed:
            self._passed.discard(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        timed = {test: self._seconds[test] for test in sorted(self._passed)}
        self._file.with_suffix(".json").write_text(json.dumps(timed, indent=0))
