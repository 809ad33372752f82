"""Newest events beside the editor: of the task that the cursor is in, from what runs, and by keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import flows
from tests.browser.conftest import PageOf
from tests.browser.documents import ETL
from tests.browser.drive import settled, until
from tests.browser.site import RunningSite

pytestmark = pytest.mark.browser
OTHER = ETL.replace("City ETL", "Other").replace(
    "interpolate, config: {window: 5}", "block_average, config: {window: 33}")


@pytest.fixture
def editor(site: RunningSite, merged: dict[str, str], page_of: PageOf) -> Page:
    """The editor with a document of which the first three tasks run."""
    page = page_of()
    page.goto(f"{site.url}/dataflows/new")
    settled(page)
    flows.write(page, OTHER)
    expect(page.locator("#streams")).to_be_visible()
    return page


def cursor_to(page: Page, text: str) -> None:
    page.evaluate("""text => {
        weirEditor.view.dispatch({ selection: { anchor: weirEditor.text().indexOf(text) + text.length } });
        weirEditor.view.focus();
    }""", text)


def numbers(page: Page) -> list[str]:
    return page.locator("#streams [data-event] td:first-child").all_text_contents()


def test_the_stream_of_the_task_at_the_cursor_is_shown_as_it_goes_on(editor: Page) -> None:
    streams = editor.locator("#streams")
    cursor_to(editor, "id: plausible")
    expect(editor.get_by_label("Stream of")).to_have_value("plausible")
    expect(streams).to_have_attribute("data-state", "running")
    expect(streams.locator("[data-event]")).to_have_count(5)
    expect(streams.locator("[data-column='temperature'] [data-type]")).to_have_text("double")
    before = numbers(editor)
    until(lambda: numbers(editor) and numbers(editor) != before, "newer events are shown")
    streams.get_by_role("link", name="Task").click()
    expect(editor.locator("[data-output] [data-event]").first).to_be_visible()


def test_a_stream_that_does_not_run_yet_shows_its_columns_and_what_to_do(editor: Page) -> None:
    streams = editor.locator("#streams")
    cursor_to(editor, "id: fill")
    expect(streams).to_have_attribute("data-state", "not_yet")
    expect(streams.locator("[data-empty]")).to_be_visible()
    expect(streams.locator("[data-column='sensor_id'] [data-type]")).to_have_text("string")
    expect(streams.get_by_role("button", name="Pause")).to_be_hidden()


def test_streams_are_chosen_and_paused_by_keyboard(editor: Page) -> None:
    streams = editor.locator("#streams")
    editor.get_by_label("Stream of").focus()
    editor.keyboard.press("Home")
    expect(streams.locator("[data-event]")).to_have_count(5)
    editor.keyboard.press("ArrowDown")
    expect(editor.get_by_label("Stream of")).to_have_value("parse")
    pause = streams.get_by_role("button", name="Pause")
    pause.focus()
    editor.keyboard.press("Enter")
    expect(streams.get_by_role("button", name="Resume")).to_have_attribute("aria-pressed", "true")
    shown = numbers(editor)
    editor.wait_for_timeout(2_500)  # two polls
    assert numbers(editor) == shown
    editor.keyboard.press("Enter")
    until(lambda: numbers(editor) != shown, "it goes on")


def test_a_document_that_is_emptied_shows_no_stream_and_one_with_a_mistake_the_last_ones(editor: Page) -> None:
    editor.get_by_label("Stream of").select_option("parse")
    flows.write(editor, OTHER.replace("senml_parse", "senml_prse"))
    expect(editor.locator("#problems li")).to_have_count(1)
    expect(editor.locator("#streams")).to_have_attribute("data-stale", "")
    flows.write(editor, OTHER)
    expect(editor.locator("#streams")).not_to_have_attribute("data-stale", "")
    expect(editor.get_by_label("Stream of")).to_have_value("parse")
    editor.locator(".cm-content").click()
    editor.keyboard.press("Control+A")
    editor.keyboard.press("Backspace")
    expect(editor.locator("#streams")).to_be_hidden()
