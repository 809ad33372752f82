"""Exploring overlap in a browser: the preview beside the editor, a dataflow's part lit up, the map by keyboard."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser import flows
from tests.browser.conftest import PageOf
from tests.browser.documents import BROKEN, SHARED, STATS
from tests.browser.drive import drawn, settled, until
from tests.browser.site import RunningSite

pytestmark = pytest.mark.browser


@pytest.mark.long  # tests/pages/test_actions.py has what the editor is told, test_streams.py what it draws
def test_the_editor_shows_what_would_be_reused(
    merged: dict[str, str], site: RunningSite, page_of: PageOf
) -> None:
    page = page_of(at=None)
    page.goto(f"{site.url}/dataflows/new")
    settled(page)
    expect(page.locator("#preview")).to_be_hidden()
    flows.write(page, STATS.replace("Station statistics", "Other statistics").replace("window: 10", "window: 77"))
    preview = page.locator("#preview")
    # All but the one average that differs, and its output.
    expect(preview.locator(".preview-figures b").first).to_have_text("5 of 7")
    expect(preview).to_contain_text("Station statistics")
    page.locator("#preview-graph .graph-stage[data-drawn='7']").wait_for(state="attached")
    assert _with_class(page, "starts") == {"mean", "averages"}
    assert _with_class(page, "shared") == {"sensors", "parsed", "in_range", "smooth", "smoothed"}
    flows.write(page, BROKEN)
    expect(page.locator("#problems li")).to_have_count(2)
    expect(preview).to_have_attribute("data-stale", "")


def test_the_merged_graph_lights_up_a_dataflows_part(
    merged: dict[str, str], site: RunningSite, page_of: PageOf
) -> None:
    page = page_of(at=None)
    page.goto(f"{site.url}/estate/graph")
    settled(page)
    drawn(page)
    page.get_by_role("button", name=re.compile("^City ETL")).click()
    expect(page.locator("[data-part='lit']")).to_have_text(f"City ETL: 5 tasks, {SHARED} shared")
    lit = _with_class(page, "lit")
    assert len(lit) == 5
    assert len(_with_class(page, "dim")) == 12 - SHARED - 5
    page.reload()
    drawn(page)
    until(lambda: _with_class(page, "lit") == lit, "the address keeps the choice")
    page.get_by_role("button", name=re.compile("^City ETL")).click()
    assert _with_class(page, "lit") == set()
    page.get_by_role("searchbox", name="Find a dataflow or a task").fill("kalman")
    until(lambda: len(_with_class(page, "lit")) == 1, "the task is found")
    page.keyboard.press("Enter")
    card = page.locator(".graph-card")
    expect(card).to_contain_text("kalman_filter")
    card.get_by_role("link", name="Open the task").click()
    expect(page.locator("h1")).to_have_text("smooth")
    expect(page.get_by_text("1 output of 1 dataflow")).to_be_attached()


def test_the_overlap_map_is_read_with_the_keyboard(
    merged: dict[str, str], site: RunningSite, page_of: PageOf
) -> None:
    page = page_of(at=None)
    page.goto(f"{site.url}/estate/overlap")
    settled(page)
    page.locator(".heat-stage[data-drawn='2']").wait_for(state="attached")
    page.locator(".heat-plot").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".heat-says")).to_contain_text(f"share {SHARED} tasks, 60% of the smaller one")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/estate/overlap/.+/.+"))
    drawn(page)
    assert len(_with_class(page, "common")) == SHARED


def _with_class(page: Page, name: str) -> set[str]:
    """The ids of the drawn tasks that have a class."""
    graph = "window.weirGraphs[0]"
    return set(page.evaluate(
        f"{graph}.cy ? {graph}.cy.nodes('.{name}').map((node) => {graph}.byId.get(node.id()).id) : []"))
