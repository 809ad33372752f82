"""The five places of the site, the pages of each, and where one is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.urls import reverse


@dataclass(frozen=True, slots=True)
class PlacePage:
    """A page that is reached from the frame: the name of its address, and its title."""

    name: str
    title: str

    @property
    def key(self) -> str:
        """What scripts and shortcuts know it by."""
        return self.name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class Place:
    """Pages that belong together; the first one is where the place begins."""

    key: str
    title: str
    pages: tuple[PlacePage, ...]


PEOPLE = PlacePage("people", "People")  # for administrators
OVERVIEW = Place("overview", "Overview", (
    PlacePage("estate", "Now"), PlacePage("estate_time", "Over time"), PlacePage("estate_graph", "Graph"),
    PlacePage("overlap", "Overlap"), PlacePage("fragmentation", "Queries"), PlacePage("deployment", "Deployment"),
    PlacePage("slots", "Slots")))
PLACES = (
    OVERVIEW,
    Place("dataflows", "Dataflows", (PlacePage("dataflows", "Dataflows"),)),
    Place("reviews", "Reviews", (PlacePage("proposals", "Proposals"),)),
    Place("observe", "Observe", (
        PlacePage("problems", "Problems"), PlacePage("alerts", "Alerts"), PlacePage("bills", "Bills"),
        PlacePage("wall", "Wall"))),
    Place("settings", "Settings", (
        PlacePage("teams", "Teams"), PEOPLE, PlacePage("controllers", "Controllers"), PlacePage("profiles", "Profiles"),
        PlacePage("task_types", "Task types"), PlacePage("audit", "Audit"))))


def page_at(path: str, pages: Iterable[PlacePage]) -> PlacePage | None:
    """The page that an address is of, or is below of: the longest that fits. None where there is none."""
    fitting = [(len(url), page) for page in pages
               if path == (url := reverse(page.name)) or (url != "/" and path.startswith(url.rstrip("/") + "/"))]
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


def place_at(path: str, places: Iterable[Place] = PLACES) -> Place | None:
    """The place that an address belongs to: what is below ``/estate/`` and of no page belongs to the overview."""
    for place in places:
        if page_at(path, place.pages) is not None:
            return place
    return OVERVIEW if path.startswith("/estate/") else None
