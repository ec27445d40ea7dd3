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
    failed_test: str
    """The test that failed, or what pytest said last where it came to no test."""

    @property
    def passed(self) -> bool:
        return self.status in (0, NO_TESTS)


def failed_in(output: str) -> str:
    for line in output.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            return line.partition(" ")[2].partition(" - ")[0]
    return last_line(output)


def last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
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
        self._beside: list[subprocess.Popen[bytes]] = []
        self.fork: int | None = None
        """The processes that one of them has started in a session of its own."""
        self._is_stopped = False
        for path in paths:
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, target)
        self._temporary.mkdir()
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
        self.empty()
        return self._run(self._pytest(arguments), timeout_s)

    def start_pytest(self, arguments: list[str], files: tuple[int, ...], output: Path) -> subprocess.Popen[bytes]:
        """Let it run beside others, with these files open."""
        with output.open("wb") as written:
            self._beside.append(self._start(self._pytest(arguments), written.fileno(), files))
        return self._beside[-1]

    def empty(self) -> None:
        """Remove what earlier tests have left."""
        shutil.rmtree(self._temporary, ignore_errors=True)
        # Examples that failed before; what hypothesis knows of the sources takes long to learn.
        shutil.rmtree(self.root / ".hypothesis" / "examples", ignore_errors=True)
        self._temporary.mkdir()

    def stop(self) -> None:
        """End what runs in it, and begin nothing more."""
        self._is_stopped = True
        for process in [*self._beside, *filter(None, [self._running])]:
            kill_session(process.pid)
        if self.fork is not None:
            kill_session(self.fork)

    def _pytest(self, arguments: list[str]) -> list[str]:
        """Tests in an order and with examples that are the same each time."""
        always = ["-m", "pytest", "-p", "tools.mutants.plugin", "-p", "no:randomly", "-p", "no:cacheprovider"]
        always += ["-q", "--tb=no", "--hypothesis-seed=0", "--timeout=0", f"--basetemp={self._temporary / 'pytest'}"]
        return [*always, *arguments]

    def _start(self, arguments: list[str], output: int, files: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
        # The tests are compiled once, whatever the caller's environment says.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
            "PYTHONPATH": str(self.root / "src"),
            "ONCELOG_SEED": "1",
            "TMPDIR": str(self._temporary),
        }
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_prepare,
            pass_fds=files,
        )

    def _run(self, arguments: list[str], timeout_s: float | None) -> Run:
        if self._is_stopped:
            return Run(None, "")
        self._running = process = self._start(arguments, subprocess.PIPE)
        try:
            output, _ = process.communicate(timeout=timeout_s)
            status: int | None = process.returncode
        except subprocess.TimeoutExpired:
            output, status = b"", None
        finally:
            # Brokers and Java that tests started may outlive pytest.
            kill_session(process.pid)
            process.wait()
        return Run(status, failed_in(output.decode(errors="replace")))


def kill_session(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def be_no_more_urgent() -> None:
    """Where Linux shares the processors out among sessions, a new one would be as urgent as any other, whatever `nice` says."""
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(os.nice(0)))


def _prepare() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    be_no_more_urgent()
