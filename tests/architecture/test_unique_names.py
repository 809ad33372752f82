"""One word, one thing: a public class or module has a name of its own in the science, the workers and the site."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import PurePosixPath

from .sources import PACKAGES, ROOT, name_of, nodes, python_files, tree

CLASSES_ALIKE = {
    "Command": "Django's: one a command of manage.py, named by its module",
    "Meta": "Django's: nested in models and forms",
    "Migration": "Django's: one a migration",
    "Parser": "sqlglot's: nested in a dialect",
}
# What a module is in every app of the site, by Django or by the house: services write, selectors read.
PARTS_OF_APPS = {"admin", "apps", "lifecycle", "models", "permissions", "selectors", "services", "urls", "views"}
# Doors are called for what they open: the page, answer or task of `bills` is `bills` too.
DOORS = (
    "dashboard/api/answers", "dashboard/commands/management/commands", "dashboard/pages/templatetags",
    "dashboard/pages/views", "dashboard/tasks")
MODULES_ALIKE = {
    "__main__": "Python's: what `python -m` runs of a package",
    "columns": "packages of other people import scheduler.model.columns and workers.library.columns",
    "commands": "Django asks for management.commands; dashboard.commands holds it",
    "config": "the site's Django project; packages of other people import workers.library.config",
    "contract": "packages of other people import one for sources and one for sinks",
    "controllers": "one package decides and one acts",
    "files": "a family of task types, declared by its module; the engine's package for them",
    "history": "one package has the values and one stores them",
    "live": "a family of task types, declared by its module; the site's package for live pages",
    "models": "Django's of an app; models as numbers of workers.library, for packages of other people",
    "replay": "a family of task types, declared by its module; the science's package that plays controllers",
    "sinks": "a family of task types, declared by its module; the engine's package for them",
}


def modules_of(paths: Iterable[str]) -> dict[str, list[str]]:
    """Modules and packages by name, without migrations and doors; a part of every app of the site counts once."""
    names: dict[str, list[str]] = {}
    for path in map(PurePosixPath, paths):
        is_package = path.name == "__init__.py"
        name = path.parent.name if is_package else path.stem
        place = f"an app's {name}" if path.parts[0] == "dashboard" and name in PARTS_OF_APPS else str(path)
        is_door = not is_package and str(path.parent) in DOORS
        if "migrations" not in path.parts and not is_door and place not in names.get(name, ()):
            names.setdefault(name, []).append(place)
    return names


def classes_of(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Public classes by name, nested ones too."""
    names: dict[str, list[str]] = {}
    for path, module in trees.items():
        for node in nodes(module):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                names.setdefault(node.name, []).append(path)
    return names


def several(names: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Those that stand for more than one thing."""
    return {name: places for name, places in names.items() if len(places) > 1}


@cache
def classes() -> dict[str, list[str]]:
    """The product's public classes."""
    return classes_of({name_of(path): tree(path) for path in python_files(*PACKAGES)})


def test_public_classes_have_names_of_their_own() -> None:
    alike = several(classes())
    assert {name: places for name, places in alike.items() if name not in CLASSES_ALIKE} == {}, (
        "put the package's noun before the name; docs/words.md has the words")
    assert set(CLASSES_ALIKE) <= set(alike), "an exception that nothing needs"


def test_modules_have_names_of_their_own() -> None:
    alike = several(modules_of(map(name_of, python_files(*PACKAGES))))
    assert {name: places for name, places in alike.items() if name not in MODULES_ALIKE} == {}, (
        "call a module for what is in it alone; docs/words.md has the words")
    assert set(MODULES_ALIKE) <= set(alike), "an exception that nothing needs"


def test_names_that_are_used_twice_are_seen() -> None:
    twice = ast.parse("class A:\n  class B: pass\nclass _P: pass")
    assert several(classes_of({"a.py": twice, "b.py": ast.parse("class B: pass\nclass _P: pass")})) == {
        "B": ["a.py", "b.py"]}
    assert several(modules_of([
        "scheduler/a/x.py", "workers/x.py", "dashboard/pages/views/x.py", "dashboard/a/models.py",
        "dashboard/b/models.py", "dashboard/a/migrations/y.py", "workers/y.py", "workers/z/__init__.py",
        "scheduler/z.py"])) == {
            "x": ["scheduler/a/x.py", "workers/x.py"], "z": ["workers/z/__init__.py", "scheduler/z.py"]}
    assert several(modules_of(["dashboard/a/models.py", "workers/models.py"])) == {
        "models": ["an app's models", "workers/models.py"]}


# The glossary --------------------------------------------------------------------------------------------------------


def rows() -> list[list[str]]:
    """The cells of the glossary's rows: word, meaning, in code, not."""
    lines = (ROOT / "docs" / "words.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in cells if row[0] != "word" and set(row[0]) != {"-"}]


def test_a_word_has_one_row() -> None:
    words = [word.strip() for row in rows() for word in row[0].split(",")]
    assert all(len(row) == 4 for row in rows()) and len(words) > 100
    assert [word for word in set(words) if words.count(word) > 1] == []


def test_what_the_glossary_names_is_in_the_code() -> None:
    named = {name for row in rows() for name in re.findall(r"`(\w+)`", row[2])}
    java = {path.stem for path in (ROOT / "workers").rglob("*.java")}
    assert len(named) > 50 and named - java - set(classes()) == set()
