"""A dataflow's way through the pages, as people click it."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.drive import settled

WITHIN_MS = 90_000


def write(page: Page, text: str) -> None:
    """Replace what the editor holds."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.press("Backspace")
    page.keyboard.insert_text(text)


def submit(page: Page, url: str, text: str, *, team: str) -> str:
    """Submit a document; the address of its proposal, whose plan is there."""
    page.goto(f"{url}/dataflows/new")
    settled(page)
    write(page, text)
    expect(page.locator("#verdict")).to_contain_text("Valid")
    page.get_by_label("Submit for").select_option(team)
    page.get_by_role("button", name="Make a plan").click()
    page.wait_for_url(re.compile(r"/proposals/[0-9a-f-]{36}/"))
    expect(page.locator("#head .chip")).to_have_attribute("data-status", "pending")
    return page.url


def approve(page: Page, proposal: str, *, comment: str = "") -> None:
    """Approve a proposal, as whoever the page belongs to."""
    page.goto(proposal)
    settled(page)
    page.get_by_label("Comment").fill(comment)
    page.get_by_role("button", name="Approve this plan").click()
    page.wait_for_url(proposal)


def done(page: Page, *, within_ms: int = WITHIN_MS) -> None:
    """Wait until the proposal on the page is done."""
    expect(page.locator("#head .chip")).to_have_text("done", timeout=within_ms)


def dataflow_of(page: Page) -> str:
    """The address of the dataflow that the proposal on the page is about."""
    return page.locator(".crumbs a").nth(1).get_attribute("href")
