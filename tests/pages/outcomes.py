"""The page of an outcome, as data."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse

from dashboard.approvals.models import Proposal
from dashboard.catalog.models import DataflowRecord
from tests.pages.conftest import ClientOf
from tests.pages.markup import Element, Markup, assert_sound


def page_of(
    client_of: ClientOf, record: DataflowRecord, *, user: str = "carla", proposal: Proposal | None = None
) -> Markup:
    """Its outcome, or that of one of its schedules."""
    address = reverse("schedule_outcome", args=[record.pk]) + (f"?proposal={proposal.pk}" if proposal else "")
    response = client_of(user).get(address)
    assert_sound(response, address)
    return Markup(response.text)


@dataclass(frozen=True)
class Miss:
    """A promise that was missed, as the page shows it."""

    what: str
    where: str
    cause: str
    remedy: str
    measured: float
    promised: float
    text: str


def misses_on(page: Markup) -> list[Miss]:
    """What the page says was missed."""
    def miss(note: Element) -> Miss:
        named = [note.attributes[name] or "" for name in ("data-miss", "data-where", "data-cause", "data-remedy")]
        return Miss(*named, note.number("missed.measured"), note.number("missed.promised"), note.text)

    return [miss(note) for note in page.having("data-miss")]


def whole(page: Markup, name: str) -> Element:
    """A figure of the whole dataflow: planned, predicted or measured."""
    [figures] = page.having("id", "outcome-whole")
    return figures.one("data-field", name)


def schedule_on(page: Markup) -> tuple[str, float]:
    """The pair and the rate of the schedule that the page is of."""
    return page.field("pair"), page.number("promised.rate")
