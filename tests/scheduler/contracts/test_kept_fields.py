"""Contracts stay readable: no field goes, changes its type or becomes needed without somebody saying so."""

from __future__ import annotations

import pytest

from .kept_fields import broken, current, read, written


def test_documents_and_programs_of_before_are_understood() -> None:
    assert broken(read(), current()) == []


def test_every_field_is_promised() -> None:
    assert read() == current(), "python -m tests.scheduler.contracts.kept_fields"
    assert len(read()) > 200 and written(read()) == written(current())


@pytest.mark.parametrize(("now", "words"), [
    ({}, "C/A.x is gone"),
    ({"C/A.y": "integer"}, "C/A.x is gone"),
    ({"C/A.x": "string"}, "C/A.x was integer and is string"),
    ({"C/A.x": "integer", "C/A.y": "string"}, "C/A.y is missing in what was written before"),
])
def test_what_breaks_a_contract_is_seen(now: dict[str, str], words: str) -> None:
    assert words in broken({"C/A.x": "integer"}, now)


def test_a_field_that_had_a_default_keeps_one() -> None:
    assert broken({"C/A.x": "integer?"}, {"C/A.x": "integer"}) == ["C/A.x may be missing in what was written before"]


@pytest.mark.parametrize("now", [
    {"C/A.x": "integer"}, {"C/A.x": "integer?"}, {"C/A.x": "integer", "C/A.y": "string?"},
    {"C/A.x": "integer", "C/B.y": "string"},
])
def test_what_keeps_it_is_let_pass(now: dict[str, str]) -> None:
    assert broken({"C/A.x": "integer"}, now) == []
