"""Text that Spark's parser reads is written in few places: names and constants in one module, expressions in one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from .sources import name_of, nodes, python_files, tree

READERS = {"expr", "selectExpr", "parseExpression", "call_function", "_parse_datatype_string"}
WRITES = "workers/library/spark_text.py"
READS = {
    "workers/library/select/parsed_text.py",  # behind its check
    "workers/library/spark_readers.py",  # two names
    "workers/library/taxis.py",  # a constant
}
NO_SPARK = {"workers/library/describe.py"}  # Markdown


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in python_files("workers/library", "workers/engine"):
        yield name_of(path), tree(path)


def readers(module: ast.Module) -> list[str]:
    """Calls of what reads text as an expression or a type."""
    called = [node.func for node in nodes(module) if isinstance(node, ast.Call)]
    return [name.attr for name in called if isinstance(name, ast.Attribute) and name.attr in READERS]


def joined_names(module: ast.Module) -> list[str]:
    """Names that an f-string or a format puts between backticks."""
    texts = []
    for node in nodes(module):
        if isinstance(node, ast.JoinedStr):
            for before, value in zip(node.values, node.values[1:], strict=False):
                text = before.value if isinstance(before, ast.Constant) else ""
                if isinstance(value, ast.FormattedValue) and str(text).endswith("`"):
                    texts.append(ast.unparse(node))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "`{" in node.value:
            texts.append(node.value)
    return texts


def test_only_what_is_checked_is_read_as_an_expression():
    assert {name for name, module in modules() if readers(module)} == READS


def test_only_one_module_puts_names_between_backticks():
    by_module = {name: joined_names(module) for name, module in modules() if joined_names(module)}
    assert set(by_module) == {WRITES, *NO_SPARK}, by_module


@pytest.mark.parametrize("text", ["f'`{name}` int'", "f'a, `{name}`'", "'`{}` {}'.format(name, kind)"])
def test_the_check_for_names_sees(text):
    assert joined_names(ast.parse(text))


@pytest.mark.parametrize("text", ["F.expr(text)", "inputs.selectExpr(*entries)", "parser.parseExpression(text)"])
def test_the_check_for_readers_sees(text):
    assert readers(ast.parse(text))
