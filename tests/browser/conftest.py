"""One site with a played node, one browser, and a page for whoever asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.browser import drive
from tests.browser.documents import ETL, STATS
from tests.browser.site import PASSWORD, RunningSite, start_site, stop_site

PageOf = Callable[..., Page]
expect.set_options(timeout=drive.WAIT_S * 1000)  # a page is not wrong where a busy machine shows it late


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory, migrated_file: Path) -> Iterator[RunningSite]:
    """The site; it keeps its estate from test to test of a module, so names of dataflows are a test's own."""
    running = start_site(tmp_path_factory.mktemp("site"), migrated=migrated_file)
    yield running
    stop_site(running)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium; the tests are skipped where it is not installed.

    No longer than for this folder: as long as it is there, its event loop runs, and no asynchronous test can start.
    """
    if not drive.has_chromium():
        pytest.skip("pages are tested in Chromium, which is not installed: apt install chromium")
    with drive.browser() as chromium:
        yield chromium


@pytest.fixture(scope="package")
def merged(site: RunningSite) -> dict[str, str]:
    """Two dataflows of two teams that share tasks, both running: addresses by name."""
    etl, etl_proposal = site.runs(ETL, "ana", team="city")
    stats, stats_proposal = site.runs(STATS, "ana", "ben", team="mobility")
    return {"etl": etl, "etl-proposal": etl_proposal, "stats": stats, "stats-proposal": stats_proposal}


@pytest.fixture(scope="package")
def logged_in(site: RunningSite, browser: Browser) -> Callable[[str], StorageState]:
    """What a browser keeps of a user who has logged in, once: hashing passwords is meant to take long."""
    def log_in(user: str) -> StorageState:
        page = drive.log_in(drive.context(browser), site.url, user, PASSWORD)
        state = page.context.storage_state()
        page.context.close()
        return state

    return lru_cache(None)(log_in)


@pytest.fixture
def page_of(
    site: RunningSite, browser: Browser, logged_in: Callable[[str], StorageState]
) -> Iterator[PageOf]:
    """A page by user name (None: of nobody), at the estate, in a context of its own. No script may fail and the policy
    may not be broken.

    The estate may still be loading; a test that goes elsewhere at once has none to load (``at=None``). ``logs`` is the
    one error that a test expects.
    """
    contexts, watched = [], []

    def open_page(
        user: str | None = "carla", *, at: str | None = "/", width: int = 1280, logs: str | None = None,
        **options: object,
    ) -> Page:
        state = logged_in(user) if user else None
        context = drive.context(browser, viewport={"width": width, "height": 860}, storage_state=state, **options)
        contexts.append(context)
        page = context.new_page()
        if at is not None:
            page.goto(site.url + at, wait_until="commit")
        watched.append((logs, drive.watch(page)))
        return page

    yield open_page
    unexpected = [
        text for logs, errors in watched for text in errors
        if not drive.expected(text) and (logs is None or logs not in text)]
    for context in contexts:
        context.close()
    assert unexpected == []
