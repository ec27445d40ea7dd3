"""An annotation in a class means the same whenever it is evaluated.

Python 3.14 evaluates it late and looks in the class first (PEP 649): `type[X]` in a class with a field `type` is no type there,
and a dataclass takes what is said to be a ClassVar for a field.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"


def hidden_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The classes, and what their own fields hide from their annotations."""
    if any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body):
        return
    for found in ast.walk(tree):
        if isinstance(found, ast.ClassDef):
            for name in sorted(_annotating(found) & _members(found)):
                yield found.name, name


def _members(found: ast.ClassDef) -> set[str]:
    names = {
        node.name for node in found.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    }
    for node in found.body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def _annotating(found: ast.ClassDef) -> set[str]:
    annotations: list[ast.expr] = []
    for node in found.body:
        if isinstance(node, ast.AnnAssign):
            annotations.append(node.annotation)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            arguments = (
                *node.args.posonlyargs,
                *node.args.args,
                *node.args.kwonlyargs,
                node.args.vararg,
                node.args.kwarg,
            )
            annotations += [one.annotation for one in arguments if one is not None and one.annotation is not None]
            annotations += [node.returns] if node.returns is not None else []
    return {node.id for annotation in annotations for node in ast.walk(annotation) if isinstance(node, ast.Name)}


def test_no_field_hides_a_name_from_the_annotations_of_its_class():
    found = [
        f"{path.relative_to(SOURCE)}: {name} of {owner}"
        for path in sorted(SOURCE.rglob("*.py"))
        for owner, name in hidden_names(ast.parse(path.read_text()))
    ]
    assert found == []


@pytest.mark.parametrize(
    "body", ["kind: type[int]\n    type: int", "def of(self) -> list[int]: ...\n    def list(self): ..."]
)
def test_hidden_name_is_found(body):
    assert [owner for owner, _ in hidden_names(ast.parse(f"class One:\n    {body}\n"))] == ["One"]
