"""Public functions with four or more parameters say what each of them is, in a section of their docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from .sources import PACKAGES, name_of, python_files, tree

MOST_WITHOUT = 3
# What documents parameters elsewhere: operations in the OpenAPI document, commands in their own help; and methods of a
# protocol that is documented once.
ELSEWHERE = ("dashboard/api/", "dashboard/commands/management/", "workers/library/folds.py")


def public_functions(module: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Public functions of a module and public methods of its public classes, by their names."""
    bodies = [("", module.body), *(
        (f"{node.name}.", node.body) for node in module.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))]
    for prefix, body in bodies:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                yield f"{prefix}{node.name}", node


def undocumented(module: ast.Module) -> list[str]:
    """The functions that have many parameters and no section about them."""
    return [
        name for name, node in public_functions(module)
        if len([arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                if arg.arg not in {"self", "cls"}]) > MOST_WITHOUT
        and "Parameters\n---" not in (ast.get_docstring(node) or "")]


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_with_many_parameters_document_them(package: str) -> None:
    lacking = {
        name_of(path): names for path in python_files(package)
        if not name_of(path).startswith(ELSEWHERE) and path.parent.name != "migrations"
        and (names := undocumented(tree(path)))}
    assert lacking == {}


def test_a_function_without_the_section_is_seen() -> None:
    module = ast.parse(
        "class A:\n  def f(self, a, b, c, d): pass\n  def g(self, a, b, c): pass\ndef _h(a, b, c, d): pass")
    assert undocumented(module) == ["A.f"]
