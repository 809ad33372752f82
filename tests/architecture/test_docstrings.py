"""Sections about parameters say what names and types do not: a unit, a range, a form, who may.

What a name and a type say is left out, and what many functions have in common is said once, at the type.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from .sources import PACKAGES, name_of, nodes, python_files, tree

MOST_ALIKE = 5
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
CLAUSE = re.compile(r"(What|How|Who|Whose|Whom|Whether|That|Which|Where|When|Why)\b")
FILLING = (
    "a an and as at by for from has have how in is it its of on or that the their them there these they this those to "
    "what where which who whose with given used")


def entries(docstring: str) -> Iterator[tuple[list[str], str, str]]:
    """The entries of a section about parameters: names, what stands for the type, and the text."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-{3,}$|\Z)", docstring, re.MULTILINE | re.DOTALL)
    for entry in re.split(r"^(?=\S)", section[1], flags=re.MULTILINE) if section else ():
        head, _, text = entry.partition("\n")
        if head:
            names, _, kind = head.partition(" : ")
            yield [name.strip(" *") for name in names.split(",")], kind, " ".join(text.split())


def documented(module: ast.Module) -> Iterator[tuple[Definition, list[str], str, str]]:
    """The entries of a module, each with the function or class that it is of."""
    for node in nodes(module):
        if isinstance(node, Definition):
            for names, kind, text in entries(ast.get_docstring(node) or ""):
                yield node, names, kind, text


def words(text: str) -> set[str]:
    """The words of a text or a name, without their endings."""
    return {re.sub(r"(?<=\w{3})(s|es|ies|y|ed|ing)$", "", word) for word in re.findall(
        r"[a-z0-9%]+", re.sub(r"'s\b|(?<=[a-z])(?=[A-Z])|_", " ", text).lower())}


def says_nothing(node: Definition, names: list[str], kind: str, text: str) -> bool:
    """Whether an entry repeats the names of the parameter, of its type and of its function, and no more."""
    told_already = words(" ".join([FILLING, node.name, kind.replace("optional", ""), *names]))
    refers = "`" in text or text.startswith("As for ")
    return bool(text) and not refers and words(text) <= told_already


def unknown(node: Definition, names: list[str]) -> set[str]:
    """Names of an entry that are neither parameters of the function nor fields of the class."""
    if isinstance(node, ast.ClassDef):
        fields = {part.target.id for part in node.body
                  if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)}
        makers = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
    else:
        fields, makers = set(), [node]
    parameters = fields | {
        argument.arg for maker in makers for argument in ast.walk(maker.args) if isinstance(argument, ast.arg)}
    return set(names) - parameters if parameters else set()


@pytest.mark.parametrize("package", PACKAGES)
def test_an_entry_is_of_a_parameter_and_says_more_than_its_name(package: str) -> None:
    empty, strange = [], []
    for path in python_files(package):
        for node, names, kind, text in documented(tree(path)):
            place = f"{name_of(path)}: {node.name}({', '.join(names)})"
            empty += [f"{place}: {text}"] if says_nothing(node, names, kind, text) else []
            strange += [f"{place}: {sorted(gone)}"] if (gone := unknown(node, names)) else []
    assert (empty, strange) == ([], [])


@pytest.mark.parametrize("package", PACKAGES)
def test_a_docstring_begins_with_a_noun_or_a_verb(package: str) -> None:
    """"The queries that wait", not "What waits"; "True if it waits", not "Whether it waits"."""
    clauses = [
        f"{name_of(path)}: {node.name}" for path in python_files(package) for node in nodes(tree(path))
        if isinstance(node, Definition) and not node.name.startswith("_")
        and CLAUSE.match(ast.get_docstring(node) or "")]
    assert clauses == []


def test_what_many_have_in_common_is_said_once() -> None:
    entries_alike = Counter(
        (", ".join(names), text) for path in python_files(*PACKAGES)
        for _, names, _, text in documented(tree(path)) if "`" not in text)
    assert {entry: count for entry, count in entries_alike.items() if count > MOST_ALIKE} == {}


@pytest.mark.parametrize(("text", "nothing"), [
    ("The plan's id.", True), ("Which plan.", True), ("As it was enacted.", False), ("``now`` or a time.", False),
    ("", False),
])
def test_an_entry_that_says_nothing_is_seen(text: str, nothing: bool) -> None:
    docstring = f"Undo.\n\n  Parameters\n  ----------\n  plan_id : str\n    {text}\n  "
    module = ast.parse(f"def undo(plan_id):\n  {docstring!r}")
    [(node, names, kind, entry)] = documented(module)
    assert (names, kind, entry) == (["plan_id"], "str", text) and says_nothing(node, names, kind, entry) == nothing
    assert unknown(node, names) == set() and unknown(node, ["plan"]) == {"plan"}
