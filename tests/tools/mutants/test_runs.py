"""The program on a small tree of its own: what it finds, what it says, and what it leaves behind."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "mutants"
LIMITS = """
def is_full(size: int) -> bool:
    return size >= 10


def describe(sizes: list[int]) -> list[int]:
    return [size for size in sizes if size > 3]


def nobody_asks(size: int) -> bool:
    return size == 4


def count_down(size: int) -> int:
    while size > 0:
        size -= 1
    return size
"""
TEST = """
from oncelog.coordination.limits import count_down, describe, is_full


def test_ten_are_full():
    assert is_full(10) and not is_full(9)


def test_small_ones_are_described():
    assert describe([1, 9]) == [9]


def test_it_ends():
    assert count_down(3) == 0
"""


SLOW = """
import threading


def pytest_runtest_setup():
    threading.Event().wait()
"""


BROKEN = """
def pytest_runtest_setup():
    raise OSError("the disk is full")
"""


pytestmark = [pytest.mark.slow, pytest.mark.drawn(12, together=True)]


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree whose tests have run once."""
    root = tmp_path_factory.mktemp("mapped")
    files = {
        "src/oncelog/__init__.py": "",
        "src/oncelog/coordination/__init__.py": "",
        "src/oncelog/coordination/limits.py": LIMITS,
        "tests/coordination/test_limits.py": TEST,
        "pyproject.toml": '[tool.pytest.ini_options]\nmarkers = ["slow", "jvm", "spark"]\n',
        ".gitignore": ".cache/\n__pycache__/\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    shutil.copytree(TOOL, root / "tools" / "mutants", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    assert mutants(root, "--draw", "1").stdout.startswith("1 of ")
    return root


@pytest.fixture
def tree(mapped: Path, tmp_path: Path) -> Path:
    return shutil.copytree(mapped, tmp_path / "checkout")


def command(*arguments: str) -> list[str]:
    always = ["--folders", "coordination", "--further-seconds", "0", "--jobs", "1"]
    return [sys.executable, "-m", "tools.mutants", *always, *arguments]


def mutants(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), cwd=tree, capture_output=True, text=True, check=False)


def id_of(tree: Path, change: str) -> str:
    """The mutant whose diff has this line."""
    listed = mutants(tree, "--list", "--draw", "1000").stdout
    blocks = re.split(r"(?m)^(?=[0-9a-f]{10} )", listed)
    (found,) = [block.split()[0] for block in blocks if f"\n+{change}" in block]
    return found


def test_found_and_unfound_changes_are_told_apart_and_the_unfound_one_is_shown(tree: Path) -> None:
    claimed = id_of(tree, "    return size > 10")
    unclaimed = id_of(tree, "    return [size for size in sizes if size >= 3]")
    unrun = id_of(tree, "    return size != 4")
    run = mutants(tree, "--only", claimed, unclaimed, unrun)
    assert run.returncode == 1
    assert re.search(rf"(?m)^found +{claimed} .* tests/coordination/test_limits.py::test_ten_are_full$", run.stdout)
    assert re.search(rf"(?m)^SURVIVED +{unclaimed} ", run.stdout)
    assert "+    return [size for size in sizes if size >= 3]" in run.stdout
    assert re.search(rf"(?m)^SURVIVED, no test runs it +{unrun} ", run.stdout)
    assert re.search(r"(?m)^coordination +3 +1 +33% +0 +1 +0$", run.stdout)


def test_change_that_makes_a_loop_endless_is_found_by_its_time(tree: Path) -> None:
    endless = id_of(tree, "        pass")
    run = mutants(tree, "--only", endless, "--start-seconds", "5")
    assert run.returncode == 0
    assert f"found, by its time   {endless} " in run.stdout


def test_machine_that_is_too_slow_for_the_tests_decides_nothing(tree: Path) -> None:
    (tree / "tests/coordination/conftest.py").write_text(SLOW)
    claimed = id_of(tree, "    return size > 10")
    run = mutants(tree, "--only", claimed, "--start-seconds", "2")
    assert run.returncode == 1
    assert re.search(rf"(?m)^UNDECIDED, for the tests fail or take as long without it {claimed} ", run.stdout)
    assert re.search(r"(?m)^coordination +1 +0 +0% +0 +0 +1$", run.stdout)


def test_test_that_fails_from_some_time_on_whatever_it_tests_finds_nothing(tree: Path) -> None:
    (tree / "tests/coordination/conftest.py").write_text(BROKEN)
    claimed = id_of(tree, "    return size > 10")
    run = mutants(tree, "--only", claimed)
    assert run.returncode == 1
    assert re.search(
        rf"(?m)^UNDECIDED, .* {claimed} .* tests/coordination/test_limits.py::test_ten_are_full$", run.stdout
    )


def test_test_that_was_written_after_the_map_is_asked(tree: Path) -> None:
    unclaimed = id_of(tree, "    return [size for size in sizes if size >= 3]")
    assert mutants(tree, "--only", unclaimed).returncode == 1
    new = "from oncelog.coordination.limits import describe\n\n\ndef test_three_is_small():\n    assert describe([3]) == []\n"
    (tree / "tests/coordination/test_three.py").write_text(new)
    run = mutants(tree, "--only", unclaimed)
    assert run.returncode == 0
    assert "tests/coordination/test_three.py::test_three_is_small" in run.stdout


def test_seed_decides_what_a_run_says(tree: Path) -> None:
    first, second = (mutants(tree, "--seed", "3", "--draw", "3").stdout for _ in range(2))
    assert first == second
    assert first.startswith("3 of ")


def test_killed_program_leaves_the_source_as_it_was(tree: Path) -> None:
    with subprocess.Popen(command("--draw", "1000"), cwd=tree, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "found" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    assert (tree / "src/oncelog/coordination/limits.py").read_text() == LIMITS


def test_tests_that_fail_without_a_change_end_the_run_in_one_sentence(tree: Path) -> None:
    (tree / "tests/coordination/test_failing.py").write_text("def test_it_fails():\n    assert False\n")
    first = mutants(tree, "--draw", "1")
    assert first.returncode == 2
    assert first.stderr == (
        "tests/coordination fails without any change: tests/coordination/test_failing.py::test_it_fails\n"
    )


def test_id_that_no_mutant_has_is_named(tree: Path) -> None:
    run = mutants(tree, "--only", "0123456789")
    assert run.returncode == 2
    assert run.stderr == "no mutant has the id 0123456789: its code has changed\n"
