"""The tests' programs for Go and Node.js clients, built once with what they need and kept for as long as they are the same."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness import jars, requirements

PROGRAMS = Path(__file__).parent / "conformance"
FETCH_TIMEOUT_SECONDS, BUILD_TIMEOUT_SECONDS = 120, 300


def franz_go() -> list[str]:
    """What starts go/main.go. Without Go, or the modules it needs, the test is not run."""
    go = requirements.found_program("go", "Go")
    return [str(_built("go", lambda scratch: _build_go(go, scratch)) / "client")]


def _build_go(go: str, directory: Path) -> None:
    environment = os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    _fetched([go, "mod", "download"], directory, environment, "Go could not bring the modules of franz-go")
    _succeeded([go, "build", "-ldflags=-s -w", "-o", "client", "."], directory, environment)


def kafkajs() -> list[str]:
    """What starts node/client.js. Without Node.js, npm, or the packages it needs, the test is not run."""
    node, npm = requirements.found_program("node", "Node.js"), requirements.found_program("npm", "npm")
    return [node, str(_built("node", lambda scratch: _install_packages(npm, scratch)) / "client.js")]


def _install_packages(npm: str, directory: Path) -> None:
    command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    _fetched(command, directory, dict(os.environ), "npm could not bring kafkajs")


def _built(name: str, build: Callable[[Path], None]) -> Path:
    """A copy of the sources, built whole or not at all, also when several processes try."""
    sources = sorted(path for path in (PROGRAMS / name).iterdir() if path.is_file())
    content = b"".join(path.name.encode() + path.read_bytes() for path in sources)
    built = jars.cache_directory() / f"{name}-program-{hashlib.sha256(content).hexdigest()[:16]}"
    built.parent.mkdir(parents=True, exist_ok=True)
    with open(built.parent / f"{name}-program.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
                copy = Path(scratch) / name
                copy.mkdir()
                for path in sources:
                    shutil.copy(path, copy)
                build(copy)
                shutil.move(copy, built)
    return built


def _fetched(command: list[str], directory: Path, environment: dict[str, str], otherwise: str) -> None:
    done = _run(command, directory, environment, FETCH_TIMEOUT_SECONDS)
    if done.returncode:
        requirements.not_run(f"{otherwise}: {(done.stdout + done.stderr)[-300:].strip()}")


def _succeeded(command: list[str], directory: Path, environment: dict[str, str]) -> None:
    done = _run(command, directory, environment, BUILD_TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr


def _run(
    command: list[str], directory: Path, environment: dict[str, str], timeout_seconds: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_seconds,
        stdin=subprocess.DEVNULL,
    )
