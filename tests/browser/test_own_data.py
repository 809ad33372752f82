"""The way to one's own data in a browser: a folder is looked at, its columns are proposed, the document is sound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PageOf
from tests.browser.drive import settled, until
from tests.browser.site import RunningSite
from workers.engine.agents.supervising.confinement import Confinement
from workers.engine.agents.supervising.look_runner import LookRunner
from workers.engine.worker_settings import Settings

pytestmark = pytest.mark.browser


@pytest.fixture
def rooms(site: RunningSite) -> Iterator[Path]:
    """A folder with two events and a line that is none, and the part of a node's agent that looks."""
    folder = site.data_dir / "inbox" / "rooms"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "1.ndjson").write_text(
        '{"room": "7", "celsius": 21, "place": {"floor": 2}}\n{no json\n{"room": "8", "celsius": 21.5}\n')
    settings = Settings(redis_url=site.redis_url, data_dir=site.data_dir)
    runner = LookRunner(settings, Confinement.of(settings, site.environment))
    runner.start()
    yield folder
    runner.stop()
    runner.join(10)
    (folder / "1.ndjson").unlink()


def go_on(page: Page, button: str, step: str) -> None:
    page.get_by_role("button", name=button, exact=True).press("Enter")
    page.wait_for_url(f"**/own-data/{step}")
    settled(page)


def test_four_steps_lead_from_a_folder_to_a_sound_document(site: RunningSite, page_of: PageOf, rooms: Path) -> None:
    page = page_of(at=None)
    page.goto(f"{site.url}/dataflows/new")
    settled(page)
    page.get_by_role("link", name="Bring your own data").press("Enter")
    page.get_by_role("link", name="Files").press("Enter")
    page.get_by_label("Name of the dataflow").fill("Own rooms")
    page.get_by_label("Path").fill("rooms")
    go_on(page, "Look at the source", "columns")
    expect(page.locator("[data-column-row='celsius'] select")).to_have_value("double")
    expect(page.locator("[data-column-row='place_floor'] select")).to_have_value("bigint")
    expect(page.locator("#seen [data-event]")).to_have_count(2)
    expect(page.locator("[data-look='unread']")).to_contain_text("{no json")
    page.locator("[data-column-row='celsius'] select").select_option("bigint")
    page.get_by_role("button", name="Look with these columns").press("Enter")
    expect(page.locator("[data-look='unread']")).to_contain_text("which is no bigint")
    page.locator("[data-column-row='celsius'] select").select_option("double")
    go_on(page, "Next: what to do first", "work")
    page.get_by_label("Keep some events").press("Space")
    page.get_by_label("Where", exact=True).select_option("celsius")
    page.get_by_label("Value", exact=True).fill("warm")
    go_on(page, "Next: where it goes", "work")
    expect(page.locator(".error")).to_contain_text("is no double")
    page.get_by_label("Value", exact=True).fill("20")
    go_on(page, "Next: where it goes", "target")
    page.get_by_role("button", name="Write the document").press("Enter")
    expect(page.locator("#verdict")).to_contain_text("Valid: 4 tasks")
    until(lambda: "celsius > 20" in page.evaluate("weirEditor.text()"), "the document is that of the answers")
