"""Newest events beside the editor: of the task that the cursor is in, from what runs, and by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from playwright.sync_api import Page, expect

from tests.browser import flows
from tests.browser.conftest import PageOf
from tests.browser.documents import ETL
from tests.browser.drive import settled, until
from tests.browser.site import RunningSite
from workers.engine.agents.supervising.confinement import Confinement
from workers.engine.agents.supervising.look_runner import LookRunner
from workers.engine.worker_settings import Settings

pytestmark = pytest.mark.browser
OTHER = ETL.replace("City ETL", "Other").replace(
    "interpolate, config: {window: 5}", "block_average, config: {window: 33}")


@pytest.fixture
def editor(site: RunningSite, merged: dict[str, str], page_of: PageOf) -> Page:
    """The editor with a document of which the first three tasks run."""
    page = page_of(at=None)
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


def test_text_and_graph_have_one_choice(editor: Page) -> None:
    until(lambda: editor.evaluate("Boolean(window.weirGraphs?.[0]?.cy)"), "the graph is drawn")
    cursor_to(editor, "id: fill")
    until(lambda: in_graph(editor, ":selected") == ["fill"], "the task at the cursor is chosen in the graph")
    editor.locator("#preview-graph .graph-canvas").focus()
    editor.keyboard.press("[")
    chosen, = in_graph(editor, ":selected")
    assert chosen != "fill"
    before = editor.evaluate("weirEditor.text().slice(0, weirEditor.view.state.selection.main.head)")
    assert before.endswith(f"id: {chosen}"), "the cursor goes to the task that is chosen in the graph"
    # Within braces: the value of this call is the whole graph, and whoever evaluates it is sent that for a minute.
    editor.evaluate("() => { weirGraphs[0].cy.viewport({ zoom: 0.7, pan: { x: 5, y: 7 } }) }")
    replaced(editor, "window: 33", "window: 34")
    until(lambda: editor.evaluate("weirGraphs[0].byId.get('fill').config.window === 34"), "the graph is drawn anew")
    assert editor.evaluate("[weirGraphs[0].cy.zoom(), weirGraphs[0].cy.pan()]") == [0.7, {"x": 5, "y": 7}]
    replaced(editor, "window: 34", "windo: 34")
    until(lambda: in_graph(editor, ".failed") == ["fill"], "the problem is shown at its task")
    replaced(editor, "windo: 34", "window: 34")
    until(lambda: in_graph(editor, ".failed") == [], "the problem is gone")


def in_graph(page: Page, which: str) -> list[str]:
    return page.evaluate("which => weirGraphs[0].cy.nodes(which).map((node) => node.id())", which)


def replaced(page: Page, old: str, new: str) -> None:
    page.evaluate("""([old, insert]) => {
        const from = weirEditor.text().indexOf(old);
        weirEditor.view.dispatch({ changes: { from, to: from + old.length, insert } });
    }""", [old, new])


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


DROPS = """name: Drops
tasks:
  - {id: drop, type: files, config: {path: drops, columns: ["n:bigint", text]}}
  - {id: out, type: output, config: {name: drops}}
streams:
  - {from: drop, to: out}
"""


@pytest.fixture
def drops(site: RunningSite) -> Iterator[Path]:
    """A folder that may be read, and the part of a node's agent that looks."""
    folder = site.data_dir / "inbox" / "drops"
    folder.mkdir(parents=True, exist_ok=True)
    settings = Settings(redis_url=site.redis_url, data_dir=site.data_dir)
    runner = LookRunner(settings, Confinement.of(settings, site.environment))
    runner.start()
    yield folder
    runner.stop()
    runner.join(10)
    for path in folder.iterdir():
        path.unlink()


def written(page: Page, text: str) -> None:
    """Write a document, and turn to its source."""
    flows.write(page, text)
    expect(page.locator("#streams")).to_be_visible()
    cursor_to(page, "id: drop")
    expect(page.get_by_label("Stream of")).to_have_value("drop")


@pytest.fixture
def drops_editor(site: RunningSite, page_of: PageOf, drops: Path) -> Page:
    """The editor with a document that reads the folder, turned to its source."""
    page = page_of(at=None)
    page.goto(f"{site.url}/dataflows/new")
    settled(page)
    written(page, DROPS)
    return page


def test_a_source_that_does_not_run_is_looked_at(drops_editor: Page, drops: Path) -> None:
    page = drops_editor
    (drops / "1.ndjson").write_text('{"n": 1, "text": "one"}\n{no json\n{"n": 2, "text": "two"}\n')
    streams = page.locator("#streams")
    streams.get_by_role("button", name="Look at the source").click()
    expect(streams.locator("[data-event]")).to_have_count(2)
    assert streams.locator("[data-event] td:first-child").all_text_contents() == ["2", "1"]
    expect(streams.locator("[data-look='unread']")).to_contain_text("1.ndjson")
    expect(streams.locator("[data-look='seen']")).to_be_visible()
    again = streams.get_by_role("button", name="Look again")
    expect(again).to_be_visible()
    written(page, DROPS.replace("Drops", "Other drops"))
    expect(streams.locator("[data-event]")).to_have_count(2)  # the source is the same: what was seen of it stays
    written(page, DROPS.replace("n:bigint", "n:double"))
    expect(streams.get_by_role("button", name="Look at the source")).to_be_visible()
    expect(streams.locator("[data-event]")).to_have_count(0)


@pytest.mark.long  # tests/engine/connectors/test_looks.py has empty sources, the next test a look that is under way
def test_an_empty_source_shows_progress_and_then_that_nothing_came(drops_editor: Page) -> None:
    streams = drops_editor.locator("#streams")
    streams.get_by_role("button", name="Look at the source").press("Enter")
    expect(streams.locator("[data-look='under-way']")).to_be_visible()
    expect(streams.get_by_role("button", name="Stop looking")).to_be_visible()
    expect(streams.locator("[data-look='none']")).to_contain_text("No event came within 5 s")
    expect(streams.locator("[data-look='under-way']")).to_have_count(0)


def test_a_look_ends_when_its_page_is_left(site: RunningSite, drops_editor: Page) -> None:
    page = drops_editor
    streams = page.locator("#streams")
    streams.get_by_role("button", name="Look at the source").click()
    with redis.Redis.from_url(site.redis_url) as broker:

        def under_way() -> list[bytes]:
            if (again := streams.get_by_role("button", name="Look again")).is_visible():  # it was over before we saw it
                again.click()
            looks = [key for key in broker.keys("weir:look:*") if not key.endswith(b":asked")]
            return [key for key in looks if b'"looking"' in (broker.hget(key, "state") or b"")]

        [look] = until(under_way, "a look is under way")
        broker.persist(look)  # so that it goes by being ended alone
        page.goto(f"{site.url}/dataflows/")
        until(lambda: not broker.exists(look), "the look was ended")


@pytest.mark.long  # tests/pages/test_own_data.py has what is said of a look that failed, the same test of looks why
def test_a_source_that_cannot_be_looked_at_says_why(drops_editor: Page, drops: Path) -> None:
    drops.rmdir()
    try:
        streams = drops_editor.locator("#streams")
        streams.get_by_role("button", name="Look at the source").click()
        expect(streams.locator("[data-error='source_away']")).to_contain_text("is not there")
        expect(streams.locator("[data-error='source_away']")).to_contain_text("Look again")
    finally:
        drops.mkdir(exist_ok=True)
