"""The file of a user that `oncelog run` takes a function from."""

from __future__ import annotations

import pytest

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.run.user_file import UserFile, user_file


@pytest.fixture
def file_of(tmp_path, monkeypatch):
    """A file with a program, and the function `f` of it."""
    monkeypatch.setattr("sys.path", ["."])

    def make(program: str) -> UserFile:
        path = tmp_path / "jobs.py"
        path.write_text(program)
        return user_file(f"{path}:f")

    return make


def refusal(call) -> str:
    with pytest.raises(CommandError) as raised:
        call()
    assert raised.value.status is ExitStatus.USAGE
    return raised.value.sentence


@pytest.mark.parametrize(
    "program",
    [
        "def f(lines): pass",
        "def f(lines, *, more=1, **others): pass",
        "def f(*lines): pass",
        "def f(a, b=None, /): pass",
        "f = lambda lines: lines",
        "from os.path import *",
        "from shutil import which as f",
        "try:\n    from fast import f\nexcept ImportError:\n    def f(lines): pass",
        "from functools import cache\n@cache\ndef f(one, two): pass",
        "class f:\n    def __init__(self, lines): pass",
    ],
)
def test_file_that_may_have_the_function_passes_without_being_run(file_of, program):
    file_of("raise RuntimeError\n" + program).check(["a"], ["x"])


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("g = 1", "{path} has no function f"),
        ("", "{path} has no function f"),
        (
            "def f(a, b): pass",
            "f takes 2 DataFrames, and the inputs are a: let it take one for each, or one for all together",
        ),
        (
            "def f(): pass",
            "f takes 0 DataFrames, and the inputs are a: let it take one for each, or one for all together",
        ),
        ("def f(a, *, b): pass", "f needs a keyword argument; it gets DataFrames only"),
        ("def f(a)\n", "{path} does not load: SyntaxError: expected ':' ({path}:1)"),
        (
            "def f(a):\nreturn a\n",
            "{path} does not load: IndentationError: expected an indented block after function definition on line 1 ({path}:2)",
        ),
    ],
)
def test_file_that_does_not_fit_is_refused_without_being_run(file_of, program, sentence):
    file = file_of(program)
    assert refusal(lambda: file.check(["a"], ["x"])) == sentence.format(path=file.path)


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("f = 1", "{path} has no function f"),
        ("from os.path import *", "{path} has no function f"),
        (
            "import os\nimport nothing_of_that_name\ndef f(a): pass",
            "{path} does not load: ModuleNotFoundError: No module named 'nothing_of_that_name' ({path}:2)",
        ),
        (
            "def table():\n    return {}['x']\nTABLE = table()\ndef f(a): pass",
            "{path} does not load: KeyError: 'x' ({path}:2, in table)",
        ),
        (
            "f = lambda a, b: a",
            "<lambda> takes 2 DataFrames, and the inputs are a: let it take one for each, or one for all together",
        ),
    ],
)
def test_file_that_turns_out_not_to_fit_is_refused(file_of, program, sentence):
    file = file_of(program)
    assert refusal(lambda: file.load(["a"])) == sentence.format(path=file.path)


def test_modules_beside_the_file_are_found(file_of, tmp_path):
    (tmp_path / "helper_of_the_user.py").write_text("def f(lines): return 'helped'\n")
    file = file_of("from helper_of_the_user import f\n")
    file.check(["a"], ["x"])
    assert file.load(["a"])(None) == "helped"
