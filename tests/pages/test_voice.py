"""Pages speak as the guide does: plain words for what is there and what to do, none of the inside's turns of phrase."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from dashboard.pages.templatetags.weir import did
from tests.architecture.sources import python_files

ROOT = Path(__file__).resolve().parents[2]
# What users met and stumbled over, and what to say in its place.
AVOIDED = {
    r"\b(is|are) told\b": "say who says it, or “is shown”", r"\bbe had\b": "“the limit is”, “is possible”",
    r"\bcomes? to (its|an) end\b": "“finishes”", r"\bcomes? to (more than|\{)": "“has”, “takes”",
    r">\s*Over\s*<": "“Resolved”, “Last”", r">\s*Keep\s*<": "“Save”"}
MARKUP = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)


@pytest.mark.parametrize("pattern", AVOIDED)
def test_no_page_says(pattern: str) -> None:
    matches = [
        f"{path.relative_to(ROOT)}: {match[0]!r}" for path in sorted((ROOT / "templates").rglob("*.html"))
        for match in re.finditer(pattern, MARKUP.sub("", path.read_text()))]
    assert matches == [], AVOIDED[pattern]


def test_every_deed_that_is_written_down_is_said_in_words() -> None:
    verbs = {
        keyword.value.value for path in python_files("dashboard") for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) for keyword in node.keywords
        if keyword.arg == "verb" and isinstance(keyword.value, ast.Constant) and "." in str(keyword.value.value)}
    assert len(verbs) > 50
    unsaid = {verb for verb in verbs for subject, _, deed in [verb.partition(".")]
              if did(verb) == f"{deed} {subject}".replace("_", " ")}
    assert unsaid == set()
