"""Within pytest: tests that are collected once, and run in a fork of the process for each change that is planted."""

from __future__ import annotations

import gc
import json
import os
import resource
import traceback
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from tools.mutants.planting import Functions, functions_below, plant
from tools.mutants.tree import be_no_more_urgent


class Forks:
    """Is asked, and answers, in lines of JSON: `Collected` is at the other end."""

    def __init__(self, questions: int, answers: int, memory: int, file_size: int) -> None:
        self._questions = questions
        self._answers = answers
        self._memory = memory
        self._file_size = file_size
        self._failed: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._failed is None:
            self._failed = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        root = session.config.rootpath
        items = {item.nodeid: item for item in session.items}
        functions = functions_below(root / "src")
        # What is frozen is not looked through by collections in the forks, and not copied for them.
        gc.collect()
        gc.freeze()
        self._say(tests=list(items))
        with open(self._questions, closefd=False) as questions:
            while line := questions.readline():
                process = os.fork()
                if process == 0:
                    try:
                        self._run(items, functions, root, **json.loads(line))
                    except BaseException:  # noqa: BLE001 - the process must not go on as the one that it is a copy of
                        traceback.print_exc()
                    finally:
                        os._exit(0)
                self._say(fork=process)
                os.waitpid(process, 0)
                self._say(ended=process)
        return True

    def _run(
        self,
        items: dict[str, pytest.Item],
        functions: dict[str, Functions],
        root: Path,
        tests: list[str],
        path: str | None,
        before: str,
        after: str,
    ) -> None:
        os.setsid()
        be_no_more_urgent()
        resource.setrlimit(resource.RLIMIT_AS, (self._memory, self._memory))
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._file_size, self._file_size))
        if path is not None:
            file = root / path
            if not plant(file, before.encode(), after.encode(), functions.get(str(file), {})):
                self._say(planted=False)
                return
        chosen = [items[test] for test in tests]
        for item, next_item in zip_longest(chosen, chosen[1:]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
            if self._failed is not None:
                break
        self._say(failed=self._failed)
        if self._failed is not None:
            with suppress(BaseException):
                item.session._setupstate.teardown_exact(None)

    def _say(self, **words: Any) -> None:
        os.write(self._answers, json.dumps(words).encode() + b"\n")
