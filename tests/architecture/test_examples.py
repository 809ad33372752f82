"""Examples in docstrings give what they say."""

from __future__ import annotations

import doctest
from importlib import import_module

from .sources import PACKAGES, name_of, python_files

PROMPT = ">>> "


def test_examples_in_docstrings_hold() -> None:
    names = [name_of(path).removesuffix(".py").replace("/", ".") for path in python_files(*PACKAGES)
             if PROMPT in path.read_text()]
    results = {name: doctest.testmod(import_module(name)) for name in names}
    assert len(results) > 20
    assert {name: result for name, result in results.items() if result.failed or not result.attempted} == {}
