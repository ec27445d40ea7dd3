"""Which changes are found in a file, and which of its code is left alone."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent, indent

import pytest

from tools.mutants.kinds import mutants_of
from tools.mutants.mutant import Kind, Mutant, drawn

SOURCE = Path(__file__).parents[3] / "src"
PATH = "src/oncelog/log/example.py"


def changes(source: str, kind: Kind) -> list[str]:
    """The whole file after each change of this kind."""
    code = dedent(source).encode()
    return [mutant.applied(code).decode() for mutant in mutants_of(PATH, code) if mutant.kind is kind]


def in_function(*body: str, returns: str = "None") -> str:
    return f"def f(self, a, b) -> {returns}:\n" + indent("\n".join(body), "    ") + "\n"


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        (Kind.COMPARISON, "x = a < b", ["x = a >= b"]),
        (Kind.COMPARISON, "x = 0 < a <= b", ["x = 0 >= a <= b", "x = 0 < a > b"]),
        (Kind.COMPARISON, "x = (a) is not (b)", ["x = (a) is (b)"]),
        (Kind.COMPARISON, "x = a not in b", ["x = a in b"]),
        (Kind.OFF_BY_ONE, "x = a <= b", ["x = a < b"]),
        (Kind.OFF_BY_ONE, "x = a + 1", ["x = a + 2"]),
        (Kind.OFF_BY_ONE, "x = a[0]", ["x = a[1]"]),
        (Kind.AND_OR, "x = a and b", ["x = a or b"]),
        (Kind.AND_OR, "x = (a) or (b)", ["x = (a) and (b)"]),
        (Kind.NOT, "x = not a", ["x = a"]),
        (Kind.NOT, "x = [c for c in b if c.d]", ["x = [c for c in b if (not (c.d))]"]),
        (Kind.NOT, "if a and b < 1:\n    x = b", ["if (not (a)) and b < 1:\n    x = b"]),
        (Kind.LEFT_OUT, "a.close()", ["pass"]),
        (Kind.LEFT_OUT, "self.a = b", ["pass"]),
        (Kind.LEFT_OUT, "del a[b]", ["pass"]),
        (Kind.LEFT_OUT, "a.call(\n    b,\n)", ["pass"]),
        (Kind.EXCHANGED, "a.write(b)\nself.end = b", ["self.end = b\na.write(b)"]),
        (
            Kind.EXCHANGED,
            "if b:\n    a.write(b)\n    # Why.\n    a.sync()",
            ["if b:\n    a.sync()\n    # Why.\n    a.write(b)"],
        ),
        (Kind.CONSTANT, "x = True", ["x = False"]),
        (Kind.CONSTANT, "x = 500", ["x = 501"]),
        (Kind.CONSTANT, "x = 0.5", ["x = 2.0"]),
    ],
)
def test_each_kind_of_change_is_found_where_it_can_be_made(kind: Kind, before: str, after: list[str]) -> None:
    assert changes(in_function(before), kind) == [in_function(each) for each in after]


@pytest.mark.parametrize(
    ("returns", "before", "after"),
    [
        ("bool", "return a.is_open", "return not (a.is_open)"),
        ("int", "return len(a)", "return (len(a)) + 1"),
        ("str | None", "return a.name", "return None"),
        ("list[int]", "return [a, b]", "return []"),
        ("dict[str, int]", "return a.b", "return {}"),
    ],
)
def test_value_that_is_returned_becomes_another_of_its_type(returns: str, before: str, after: str) -> None:
    assert changes(in_function(before, returns=returns), Kind.RETURNED) == [in_function(after, returns=returns)]


@pytest.mark.parametrize(
    "source",
    [
        '"""It has 3 < 4 parts."""\n',
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    LIMIT = 5\n",
        "x: tuple[int, 3]\n",
        "@dataclass(frozen=True)\nclass A:\n    b: int\n",
        in_function("assert a < 1, b"),
        in_function("raise ValueError(f'{a} is not below {b + 1}', 4)"),
        in_function("logger.warning('%s is above %d', a, 4)"),
        in_function("return f'{a[0]} of {len(b) + 1}'", returns="str"),
        in_function("return zip(a, b, strict=True)", returns="object"),
        "class A:\n    def __repr__(self) -> str:\n        return 'open' if self.a > 1 else 'closed'\n",
    ],
)
def test_what_no_test_should_claim_is_left_alone(source: str) -> None:
    assert mutants_of(PATH, source.encode()) == []


@pytest.mark.parametrize("statements", [("self.a = 1", "self.b = 2"), ("x = a.read()", "self.write(x)")])
def test_statements_whose_order_nobody_can_see_are_not_exchanged(statements: tuple[str, str]) -> None:
    assert changes(in_function(*statements), Kind.EXCHANGED) == []


@pytest.mark.parametrize("path", ["transactions/transitions.py", "log/index_files.py", "spark/sink/tally.py"])
def test_every_change_is_another_program_that_can_be_compiled(path: str) -> None:
    source = (SOURCE / "oncelog" / path).read_bytes()
    found = mutants_of(path, source)
    programs = [ast.dump(ast.parse(mutant.applied(source))) for mutant in found]
    assert len(found) > 10
    assert len({mutant.id for mutant in found}) == len(found)
    assert ast.dump(ast.parse(source)) not in programs


def of_source(source: str) -> list[Mutant]:
    return mutants_of(PATH, source.encode())


def test_id_stays_when_code_before_it_changes_and_goes_with_its_own_line() -> None:
    before = of_source(in_function("return a < b"))
    moved = of_source("import os\n\n\n" + in_function("return a < b"))
    changed = of_source(in_function("return a < self.b"))
    assert [mutant.id for mutant in moved] == [mutant.id for mutant in before]
    assert {mutant.id for mutant in changed}.isdisjoint(mutant.id for mutant in before)


@pytest.mark.parametrize(
    ("source", "runs_at_import"),
    [
        ("LIMIT = 5\n", True),
        ("class A:\n    b: int = 5\n", True),
        ("def f(a=5):\n    return a\n", True),
        ("def f(a):\n    return a.b[5]\n", False),
        ("class A:\n    def f(self):\n        self.b = 5\n", False),
    ],
)
def test_code_that_an_import_runs_is_told_from_that_of_a_test(source: str, *, runs_at_import: bool) -> None:
    assert {mutant.runs_at_import for mutant in of_source(source)} == {runs_at_import}


def test_equal_lines_of_one_function_have_ids_of_their_own() -> None:
    found = of_source(in_function("self.a(b)", "self.c(b)", "self.a(b)"))
    assert len({mutant.id for mutant in found}) == len(found) == 5


def test_a_seed_draws_the_same_mutants_and_a_longer_draw_begins_with_the_shorter() -> None:
    found = of_source(in_function(*(f"self.a{number}(b)" for number in range(50))))
    assert drawn(found, 7, 20) == drawn(list(reversed(found)), 7, 20)
    assert drawn(found, 7, 5) == drawn(found, 7, 20)[:5]
    assert drawn(found, 7, 20) != drawn(found, 8, 20)
