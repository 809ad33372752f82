"""One site with a played node, one browser, and a page for whoever asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import drive, flows
from tests.browser.documents import ETL, STATS
from tests.browser.site import PASSWORD, RunningSite, start_site, stop_site

PageOf = Callable[..., Page]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSite]:
    """The site; it keeps its estate from test to test of a module, so names of dataflows are a test's own."""
    running = start_site(tmp_path_factory.mktemp("site"))
    yield running
    stop_site(running)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium; the tests are skipped where it is not installed."""
    if not drive.has_chromium():
        pytest.skip("chromium is not installed: apt install chromium")
    with drive.browser() as found:
        yield found


@pytest.fixture(scope="session")
def merged(site: RunningSite, browser: Browser) -> dict[str, str]:
    """Two dataflows of two teams that share tasks, both running: addresses by name."""
    pages = {name: drive.log_in(browser.new_context(), site.url, name, PASSWORD) for name in ("carla", "ana", "ben")}
    addresses = {}
    for name, text, team, reviewers in (("etl", ETL, "city", ["ana"]), ("stats", STATS, "mobility", ["ana", "ben"])):
        proposal = flows.submit(pages["carla"], site.url, text, team=team)
        for reviewer in reviewers:
            flows.approve(pages[reviewer], proposal)
        flows.done(pages["carla"])
        addresses[name] = site.url + flows.dataflow_of(pages["carla"])
        addresses[f"{name}-proposal"] = proposal
    for page in pages.values():
        page.context.close()
    return addresses


@pytest.fixture
def page_of(site: RunningSite, browser: Browser, tmp_path: Path) -> Iterator[PageOf]:
    """A page by user name, in a context of its own. No script may fail and the policy may not be broken."""
    contexts, watched = [], []

    def open_page(user: str = "carla", *, width: int = 1280, **options: object) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 860}, **options)
        contexts.append(context)
        page = drive.log_in(context, site.url, user, PASSWORD)
        watched.append(drive.watch(page))
        return page

    yield open_page
    found = [text for errors in watched for text in errors if not drive.expected(text)]
    for context in contexts:
        context.close()
    assert found == []
