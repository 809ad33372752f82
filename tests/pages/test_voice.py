"""Pages speak as the guide does: plain words for what is there and what to do, none of the inside's turns of phrase."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from dashboard import jobs
from dashboard.pages.templatetags.weir import did
from tests.architecture.sources import python_files
from tests.architecture.test_words import AVOIDED

ROOT = Path(__file__).resolve().parents[2]
# How a text begins that only its author can complete: “Of S3.”, “Between two looks.”, “Or the folder of the table.”
FRAGMENT = re.compile(r"(Of|By|At|From|Or|And|Who|Between|Over|After|Where (to|from))\b")
MARKUP = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)


@pytest.mark.parametrize("pattern", AVOIDED)
def test_no_page_says(pattern: str) -> None:
    matches = [
        f"{path.relative_to(ROOT)}: {match[0]!r}" for path in sorted((ROOT / "templates").rglob("*.html"))
        for match in re.finditer(pattern, MARKUP.sub("", path.read_text()))]
    assert matches == [], AVOIDED[pattern]


def test_every_text_about_a_parameter_stands_alone() -> None:
    docs = {f"{name}.{parameter.name}": parameter.doc for name, declared in jobs.task_types().items()
            for parameter in declared.parameters}
    assert len(docs) > 200
    assert not {name: doc for name, doc in docs.items() if not doc or FRAGMENT.match(doc)}


def test_every_deed_that_is_written_down_is_said_in_words() -> None:
    verbs = {
        keyword.value.value for path in python_files("dashboard") for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) for keyword in node.keywords
        if keyword.arg == "verb" and isinstance(keyword.value, ast.Constant) and "." in str(keyword.value.value)}
    assert len(verbs) > 50
    unsaid = {verb for verb in verbs for subject, _, deed in [verb.partition(".")]
              if did(verb) == f"{deed} {subject}".replace("_", " ")}
    assert unsaid == set()
