"""The five sections of the site, the pages of each, and where one is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.urls import reverse


@dataclass(frozen=True, slots=True)
class SectionPage:
    """A page that is reached from the frame: the name of its address, and its title."""

    name: str
    title: str

    @property
    def key(self) -> str:
        """The key for scripts and shortcuts."""
        return self.name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class Section:
    """Pages that belong together; the first one is where the section begins."""

    key: str
    title: str
    pages: tuple[SectionPage, ...]


PEOPLE = SectionPage("people", "People")  # for administrators
OVERVIEW = Section("overview", "Overview", (
    SectionPage("estate", "Now"), SectionPage("estate_time", "Over time"), SectionPage("estate_graph", "Graph"),
    SectionPage("overlap", "Overlap"), SectionPage("fragmentation", "Queries"), SectionPage("deployment", "Deployment"),
    SectionPage("slots", "Slots")))
SETTINGS = Section("settings", "Settings", (
    SectionPage("teams", "Teams"), PEOPLE, SectionPage("controllers", "Controllers"),
    SectionPage("profiles", "Profiles"), SectionPage("task_types", "Task types"), SectionPage("audit", "Audit")))
SECTIONS = (
    OVERVIEW,
    Section("dataflows", "Dataflows", (SectionPage("dataflows", "Dataflows"),)),
    Section("reviews", "Reviews", (SectionPage("proposals", "Proposals"),)),
    Section("observe", "Observe", (
        SectionPage("problems", "Problems"), SectionPage("alerts", "Alerts"), SectionPage("bills", "Bills"),
        SectionPage("wall", "Wall"))),
    SETTINGS)


def page_at(path: str, pages: Iterable[SectionPage]) -> SectionPage | None:
    """The page that an address is of, or is below of: the longest that fits. None where there is none."""
    fitting = [(len(url), page) for page in pages
               if path == (url := reverse(page.name)) or (url != "/" and path.startswith(url.rstrip("/") + "/"))]
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


def section_at(path: str) -> Section | None:
    """The section of an address; what is below ``/estate/`` and of no page belongs to the overview."""
    for section in SECTIONS:
        if page_at(path, section.pages) is not None:
            return section
    if path in (reverse("pacing"), reverse("tenancy")):  # chosen among the controllers
        return SETTINGS
    return OVERVIEW if path.startswith("/estate/") else None
