"""The sections of the site: every page is of one, and the frame says of which."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.pages.sections import SECTIONS, page_at, section_at
from dashboard.teams.models import User

PAGES = [(section, page) for section in SECTIONS for page in section.pages]


def test_each_page_is_of_one_place_and_known_by_one_key() -> None:
    assert len({page.name for _, page in PAGES}) == len({page.key for _, page in PAGES}) == len(PAGES)
    for section, page in PAGES:
        assert section_at(reverse(page.name)) is section
        assert page_at(reverse(page.name), section.pages) is page


@pytest.mark.parametrize(("path", "section", "page"), [
    ("/", "overview", "estate"), ("/estate/slots/n1/0", "overview", "slots"), ("/estate/nodes/n1", "overview", None),
    ("/dataflows/new", "dataflows", "dataflows"), ("/proposals/1/", "reviews", "proposals"),
    ("/alerts/rules", "observe", "alerts"), ("/bills/1/", "observe", "bills"),
    ("/teams/city/rules", "settings", "teams"), ("/estate/pacing", "settings", None),
    ("/estate/tenancy", "settings", None),
    ("/password/", None, None), ("/help/start", None, None), ("/problemsolving", None, None)])
def test_what_is_below_a_page_is_of_its_place(path: str, section: str | None, page: str | None) -> None:
    section_there = section_at(path)
    assert (section_there and section_there.key) == section
    own_page = page_at(path, section_there.pages) if section_there else None
    assert (own_page and own_page.name) == page


@pytest.mark.django_db
@pytest.mark.parametrize(("user", "has_people"), [("root", True), ("carla", False)])
def test_the_frame_says_where_one_is(world, client: Client, user: str, has_people: bool) -> None:
    client.force_login(User.objects.get(username=user))
    html = client.get("/alerts/").content.decode()
    side, subnav = (re.search(rf'<nav class="{name}".*?</nav>', html, re.S)[0] for name in ("side", "subnav"))
    assert re.findall(r'<span>([A-Z][a-z]+)</span>', side)[:5] == [section.title for section in SECTIONS]
    assert re.search(r'href="/problems/"[^>]*aria-current="location"', side), "the section begins with its first page"
    assert re.search(r'href="/alerts/"[^>]*aria-current="page"', subnav)
    assert subnav.count("aria-current") == 1
    assert ('href="/people/"' in side) is has_people


@pytest.mark.django_db
@pytest.mark.parametrize("waiting", [0, 2])
def test_a_section_shows_how_many_wait_there(
    world, client: Client, monkeypatch: pytest.MonkeyPatch, waiting: int
) -> None:
    monkeypatch.setattr("dashboard.pages.templatetags.pages.waiting_for_me", lambda context: waiting)
    client.force_login(User.objects.get(username="carla"))
    side = re.search(r'<nav class="side".*?</nav>', client.get("/alerts/").content.decode(), re.S)[0]
    count = re.search(r'<span class="count" data-counts="proposals"[^>]*>', side)[0]
    assert ("hidden" in count) is (waiting == 0)
