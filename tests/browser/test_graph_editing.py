"""The document edited from its graph: forms, keys of the graph, and one history with the text."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser import flows
from tests.browser.conftest import PageOf
from tests.browser.drive import settled, until
from tests.browser.site import RunningSite

pytestmark = pytest.mark.browser
TEXT = """# Ours, with care
name: Edited in its graph
tasks:
  - {id: sense, type: urban_sensing}   # our sensors
  - {id: parse, type: senml_parse}
  - {id: mean, type: block_average, config: {window: 10}}   # readings
  - {id: out, type: output, config: {name: edited}}
streams:
  - {from: sense, to: parse}
  - {from: parse, to: mean}
  - {from: mean, to: out}
"""


@pytest.fixture
def editor(site: RunningSite, page_of: PageOf) -> Page:
    page = page_of(at=None)
    page.goto(f"{site.url}/dataflows/new")
    settled(page)
    return page


def text_of(page: Page) -> str:
    return page.evaluate("weirEditor.text()")


def choose(page: Page, task: str) -> None:
    """Choose a task in the graph by the keyboard, from wherever one is."""
    canvas = page.locator("#preview-graph .graph-canvas")
    until(lambda: task in page.evaluate("window.weirGraphs?.[0]?.byId ? [...weirGraphs[0].byId.keys()] : []"),
          f"{task} is drawn")
    canvas.focus()
    page.evaluate("task => weirGraphs[0].select(task)", task)


def test_a_dataflow_is_edited_in_its_graph_and_the_text_keeps_the_rest(editor: Page) -> None:
    flows.write(editor, TEXT)
    choose(editor, "mean")
    editor.keyboard.press("Enter")
    dialog = editor.locator("#graph-edit")
    expect(dialog.get_by_role("heading")).to_have_text("Configure mean")
    dialog.get_by_label("Window").fill("none")
    editor.keyboard.press("Enter")
    expect(dialog.locator("[data-field='window'] [role='alert']")).to_be_visible()
    expect(dialog.get_by_label("Window")).to_be_focused()
    editor.keyboard.type("25")
    editor.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    configured = TEXT.replace("window: 10", "window: 25")
    assert text_of(editor) == configured
    expect(editor.locator("#preview-graph .graph-canvas")).to_be_focused()

    choose(editor, "parse")
    editor.keyboard.press("Insert")
    dialog.get_by_label("Type").select_option("range_filter")
    dialog.get_by_label("Id of the task").fill("plausible")
    expect(dialog.get_by_label("Place")).to_have_value("mean")  # as there is one that reads it
    looked_at = Axe().run(editor, context={"include": [["#graph-edit"], ["#preview-graph"]]})
    assert looked_at.violations_count == 0, looked_at.generate_report()
    dialog.get_by_label("Ranges").fill('{"temperature": [-30, 60]}')
    dialog.get_by_role("button", name="Add").click()
    expect(dialog).to_be_hidden()
    assert "  - {from: parse, to: plausible}\n  - {from: plausible, to: mean}\n" in text_of(editor)
    expect(editor.locator("#verdict")).to_contain_text("Valid: 5 tasks")
    card = editor.locator("#preview-graph .graph-card")
    expect(card).to_contain_text("plausible")  # one goes on with what was added

    card.get_by_role("button", name="Rename").click()
    dialog.get_by_label("Id of the task").fill("likely")
    editor.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    assert "plausible" not in text_of(editor) and "{from: likely, to: mean}" in text_of(editor)
    choose(editor, "likely")
    editor.keyboard.press("Delete")
    until(lambda: text_of(editor) == configured, "the task is gone, and what it read goes where it gave")
    expect(editor.locator("#toasts")).to_contain_text("likely is removed")
    for _ in range(4):
        editor.locator("#preview-graph .graph-canvas").press("Control+z")
    assert text_of(editor) == TEXT


def place_of(page: Page, task: str) -> tuple[float, float]:
    """Where the middle of a task's box is on the screen."""
    box = page.locator("#preview-graph .graph-canvas").bounding_box()
    at = page.evaluate("task => weirGraphs[0].cy.getElementById(task).renderedPosition()", task)
    return box["x"] + at["x"], box["y"] + at["y"]


def drag(page: Page, source: str, target: str) -> None:
    """From a task's outlet to another task."""
    page.mouse.move(*place_of(page, source))
    outlet = page.locator("#preview-graph .graph-outlet").bounding_box()
    page.mouse.move(outlet["x"] + outlet["width"] / 2, outlet["y"] + outlet["height"] / 2)
    page.mouse.down()
    page.mouse.move(*place_of(page, target), steps=4)
    page.mouse.up()


def test_streams_are_joined_by_pointer_and_only_where_a_stream_may_lead(editor: Page) -> None:
    flows.write(editor, TEXT)
    choose(editor, "mean")
    editor.keyboard.press("Escape")
    editor.locator("#preview-graph").scroll_into_view_if_needed()
    for source, target in (("mean", "sense"), ("mean", "parse"), ("sense", "parse"), ("parse", "parse")):
        drag(editor, source, target)  # a source, one that it reads, one that reads it, itself
    editor.mouse.move(*place_of(editor, "out"))
    expect(editor.locator("#preview-graph .graph-outlet")).to_be_hidden()  # a sink gives nothing
    assert text_of(editor) == TEXT
    drag(editor, "parse", "out")
    joined = TEXT + "  - {from: parse, to: out}\n"
    until(lambda: text_of(editor) == joined, "parse and out are joined")
    until(lambda: editor.evaluate("weirGraphs[0].cy.edges().length") == 4, "and drawn so")
    editor.locator("#preview-graph .graph-canvas").press("Control+z")
    assert text_of(editor) == TEXT


@pytest.mark.long  # tests/pages/test_graph_editing.py has a dataflow that comes from nothing, the first test the dialog
def test_an_empty_document_begins_with_a_source(editor: Page) -> None:
    flows.write(editor, "")
    editor.locator("#preview-graph").get_by_role("button", name="Add source").click()
    dialog = editor.locator("#graph-edit")
    dialog.get_by_label("Type").select_option("urban_sensing")
    expect(dialog.get_by_label("Id of the task")).to_have_value("urban_sensing")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog).to_be_hidden()
    begun = text_of(editor)
    choose(editor, "urban_sensing")
    editor.keyboard.press("Delete")
    expect(editor.locator("#preview-graph [data-of='']")).to_be_focused()
    editor.keyboard.press("Control+z")
    assert text_of(editor) == begun
    choose(editor, "urban_sensing")
    expect(editor.locator("#problems li")).not_to_have_count(0)  # it has no sink yet, and is drawn all the same
    card = editor.locator("#preview-graph .graph-card")
    card.get_by_role("button", name="Add after").click()
    dialog.get_by_label("Type").select_option("output")
    dialog.get_by_label("Name", exact=True).fill("mine")
    dialog.get_by_role("button", name="Add").click()
    expect(editor.locator("#verdict")).to_contain_text("Valid: 2 tasks, 1 stream")
