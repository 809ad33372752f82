"""What the tests of schedules' pages read of the page Compare, and how."""

from __future__ import annotations

from tests.pages.markup import Element, Markup

PAIRS = [f"{allocation}-{mapping}" for allocation in ("LSA", "MBA") for mapping in ("DSM", "RSM", "SAM", "exact")]
JSON = {"accept": "application/json"}


def rows(page: str) -> dict[str, Element]:
    """Each pair's row."""
    return Markup(page).by("data-pair")


def texts(page: str) -> dict[str, str]:
    """The text of each pair's row."""
    return {pair: row.text for pair, row in rows(page).items()}


def headlines(page: str) -> dict[str, Element]:
    """The figures of each pair, which the page holds for when it is chosen."""
    return Markup(page).by("data-headline")


def chosen(page: str) -> str | None:
    """The chosen pair."""
    return Markup(page).one("data-chosen").attributes["data-pair"]


def cannot(page: str, pair: str | None) -> str | None:
    """Why a pair cannot be proposed; empty where it can."""
    [choice] = [element for element in Markup(page).having("data-cannot") if element.attributes["value"] == pair]
    return choice.attributes["data-cannot"]


def is_disabled(page: str, part: str) -> bool:
    """Whether a button cannot be pressed."""
    return "disabled" in Markup(page).one("data-part", part).attributes


def selected(page: str, name: str) -> str | None:
    """The chosen option of a select, by its name."""
    [select] = [element for element in Markup(page).every("select") if element.attributes["name"] == name]
    return select.one("selected").attributes["value"]
