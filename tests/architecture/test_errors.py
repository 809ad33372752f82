"""Errors as HTTP: every error class of the code base has a status."""

from __future__ import annotations

import ast

from dashboard.core.http_errors import HTTP_STATUS, http_status
from scheduler.model.errors import NotFound, NotSubmitted, WeirError
from tests.architecture.sources import PACKAGES, name_of, nodes, python_files, tree


def error_classes() -> dict[str, tuple[str | None, list[str]]]:
    """Code (if it sets one) and bases of each subclass of WeirError in the project, by file and name."""
    defined = [
        (name_of(path), node) for path in python_files(*PACKAGES) for node in nodes(tree(path))
        if isinstance(node, ast.ClassDef)]
    errors = {"WeirError"}
    classes: dict[str, tuple[str | None, list[str]]] = {}
    grew = True
    while grew:
        grew = False
        for file, node in defined:
            bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
            if f"{file}:{node.name}" not in classes and errors.intersection(bases):
                codes = [
                    item.value.value for item in node.body
                    if isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant)
                    and [ast.unparse(target) for target in item.targets] == ["code"]]
                classes[f"{file}:{node.name}"] = (codes[0] if codes else None, bases)
                errors.add(node.name)
                grew = True
    return classes


def test_every_error_has_a_status_by_an_entry_of_its_own_or_of_its_base():
    errors = error_classes()
    assert len(errors) > 40, "the search finds them"
    by_name = {name.split(":")[1]: entry for name, entry in errors.items()}

    def has_status(code: str | None, bases: list[str]) -> bool:
        return code in HTTP_STATUS or any(base in by_name and has_status(*by_name[base]) for base in bases)

    assert not [name for name, entry in errors.items() if not has_status(*entry)]


def test_every_entry_is_some_error_s_code():
    codes = {code for code, _ in error_classes().values()} | {WeirError.code}
    assert set(HTTP_STATUS) <= codes


def test_a_class_without_an_entry_has_its_base_s_status():
    class OfAPlugin(WeirError):
        code = "of_a_plugin"

    assert NotSubmitted.code not in HTTP_STATUS and http_status(NotSubmitted("gone")) == http_status(NotFound("gone"))
    assert http_status(OfAPlugin("no")) == 400


def test_the_core_knows_no_http():
    for path in python_files("scheduler"):
        assert "http_status" not in path.read_text(), name_of(path)
