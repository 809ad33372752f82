"""Allocations and mappings are named where they are registered, and nowhere else."""

from __future__ import annotations

import ast
import re

import pytest

from scheduler.allocation.allocation_registry import ALLOCATIONS
from scheduler.mapping.mapping_registry import MAPPINGS

from .sources import name_of, nodes, project_files, python_files, tree

# Modules that may name an algorithm: those that are or list one, and the pairs that are chosen by default.
NAMED_IN = ("scheduler/allocation/", "scheduler/mapping/", "scheduler/pairs.py")
NAMES = frozenset({*ALLOCATIONS, *MAPPINGS})


def names_in(module: ast.Module) -> set[str]:
    """Strings of a module that are an algorithm's name, or made of some: ``SAM``, ``MBA-SAM``, ``MBA+SAM``."""
    documentation = {
        id(node.body[0].value) for node in nodes(module)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
        and isinstance(node.body[0], ast.Expr)}
    return {
        node.value for node in nodes(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
        and NAMES.issuperset(re.split(r"[-+/]", node.value))}


def test_no_other_module_names_an_algorithm() -> None:
    naming = {
        name_of(path): names for path in python_files("scheduler", "dashboard", "workers")
        if not name_of(path).startswith(NAMED_IN) and (names := names_in(tree(path)))}
    assert naming == {}


def test_no_script_and_no_part_of_a_page_names_an_algorithm() -> None:
    quoted = re.compile(rf"""["'](?:{'|'.join(NAMES)})["']""")
    pages = [
        path for path in project_files() if path.suffix in {".html", ".js"}
        and name_of(path).startswith(("templates/", "static/js/"))]
    assert pages and [name_of(path) for path in pages if quoted.search(path.read_text())] == []


@pytest.mark.parametrize("line", ['x = "SAM"', 'pair = ("MBA", "DSM")', 'f(pair="MBA-SAM")', 'A = {"exact": 1}'])
def test_the_check_for_names_sees(line: str) -> None:
    assert names_in(ast.parse(line))
