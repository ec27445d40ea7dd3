"""A copy of the tree in which a source may be changed: a run that is killed leaves no change in the tree itself."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

NO_TESTS = 5
"""Pytest's exit status where nothing was collected."""
LAST_LINES = 4096


class Run(NamedTuple):
    status: int | None
    """None where its time was over."""
    output: str

    @property
    def passed(self) -> bool:
        return self.status in (0, NO_TESTS)

    @property
    def failed_test(self) -> str:
        """The test that failed, or what pytest said last where it came to no test."""
        lines = [line for line in self.output.splitlines() if line.strip()]
        for line in lines:
            if line.startswith(("FAILED ", "ERROR ")):
                return line.split(" ")[1]
        return lines[-1] if lines else "nothing was printed"


def files_in(root: Path) -> list[str]:
    """The files of a checkout, with those that are new and without those that git ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    return sorted(path for path in set(listed.stdout.decode().split("\0")) if path and (root / path).is_file())


class Tree:
    def __init__(self, directory: Path, root: Path, paths: list[str]) -> None:
        self.root = directory / "tree"
        self._temporary = directory / "tmp"
        self._running: subprocess.Popen[bytes] | None = None
        self._is_stopped = False
        for path in paths:
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, target)
        # Checked by their content: a source that changes twice in a second looks unchanged by its time.
        self._run(["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "src"], None)

    @contextmanager
    def changed(self, path: str, content: bytes) -> Iterator[None]:
        file = self.root / path
        before = file.read_bytes()
        file.write_bytes(content)
        try:
            yield
        finally:
            file.write_bytes(before)

    def pytest(self, arguments: list[str], timeout_s: float | None) -> Run:
        """Run tests in an order and with examples that are the same each time."""
        always = ["-m", "pytest", "-p", "tools.mutants.plugin", "-p", "no:randomly", "-p", "no:cacheprovider"]
        always += ["-q", "--tb=no", "--hypothesis-seed=0", f"--basetemp={self._temporary / 'pytest'}"]
        shutil.rmtree(self._temporary, ignore_errors=True)
        # Examples that failed before; what hypothesis knows of the sources takes long to learn.
        shutil.rmtree(self.root / ".hypothesis" / "examples", ignore_errors=True)
        self._temporary.mkdir()
        return self._run([*always, *arguments], timeout_s)

    def stop(self) -> None:
        """End what runs in it, and begin nothing more."""
        self._is_stopped = True
        if self._running is not None:
            _kill(self._running)

    def _run(self, arguments: list[str], timeout_s: float | None) -> Run:
        environment = os.environ | {
            "PYTHONPATH": str(self.root / "src"),
            "ONCELOG_SEED": "1",
            "TMPDIR": str(self._temporary),
        }
        if self._is_stopped:
            return Run(None, "")
        self._running = process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_no_core,
        )
        try:
            output, _ = process.communicate(timeout=timeout_s)
            status: int | None = process.returncode
        except subprocess.TimeoutExpired:
            output, status = b"", None
        finally:
            # Brokers and Java that tests started may outlive pytest.
            _kill(process)
            process.wait()
        return Run(status, output.decode(errors="replace"))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """All of its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _no_core() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
