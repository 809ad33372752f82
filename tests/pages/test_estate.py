"""The first page lists what runs: all of it, or, where that is too much, what needs somebody."""

from __future__ import annotations

from dashboard.pages.views.estate import LISTED, listed


def row(
    name: str, *, state: str = "running", limit: dict | None = None, rate: float | None = 1.0
) -> dict:
    return {"team": "City", "name": name, "status": "running", "state": state, "limit": limit, "events_in_per_s": rate}


def test_a_few_are_all_there_by_name() -> None:
    rows = [row("b"), row("a", state="failing"), row("c", rate=9.0)]
    assert [row["name"] for row in listed(rows)] == ["a", "b", "c"]


def test_of_many_those_with_something_wrong_and_the_busiest_are_there() -> None:
    late = {"state": "missed"}
    wrong = [row("wrong", state="failing"), row("late", limit=late), row("paused") | {"status": "paused"}]
    rows = [row(f"n{number:03}", rate=float(number)) for number in range(100)] + wrong
    names = {row["name"] for row in listed(rows)}
    assert len(names) == LISTED and {"wrong", "late", "paused"} <= names
    assert names - {"wrong", "late", "paused"} == {f"n{number:03}" for number in range(100 - LISTED + 3, 100)}
