"""The pages in a browser, over a played node: the editor, the review, keyboard, theme and widths."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser import flows
from tests.browser.conftest import PageOf
from tests.browser.documents import BROKEN, ETL, SHARED, STATS, wide
from tests.browser.drive import drawn, settled, until
from tests.browser.site import RunningSite

pytestmark = pytest.mark.browser


# The editor ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def editor(site: RunningSite, page_of: PageOf) -> Page:
    page = page_of(at=None)
    page.goto(f"{site.url}/dataflows/new")
    settled(page)
    return page


def test_problems_show_where_they_are_with_remedies(editor: Page) -> None:
    flows.write(editor, BROKEN)
    problems = editor.locator("#problems li")
    expect(problems).to_have_count(2)
    expect(problems.first).to_contain_text("line 4, column")
    expect(problems.first).to_contain_text("range_filter")
    expect(editor.locator(".cm-lint-marker-error")).to_have_count(2)
    expect(editor.get_by_role("button", name="Make a plan")).to_be_disabled()
    problems.nth(1).get_by_role("button").click()
    expect(editor.locator(".cm-activeLine")).to_contain_text("zz")
    flows.write(editor, ETL.replace("City ETL", "Repaired"))
    expect(editor.locator("#verdict")).to_contain_text("Valid: 5 tasks, 4 streams")
    expect(problems).to_have_count(0)
    expect(editor.get_by_role("button", name="Make a plan")).to_be_enabled()

    # A duplicate task is offered to be taken out.
    twice = STATS.replace("Station statistics", "Twice").replace(
        "  - {id: smooth, type: kalman_filter}", "  - {id: smooth, type: block_average, config: {window: 10}}")
    flows.write(editor, twice)
    editor.get_by_role("button", name="Use the corrected document").click()
    expect(editor.locator("#verdict")).to_contain_text("Valid: 6 tasks")


def test_what_is_typed_keeps_to_the_policy_and_names_of_columns_are_completed(editor: Page) -> None:
    """Chromium's own editing would give a style to what replaces coloured text; the page's fixture fails for what the
    policy refuses."""
    flows.write(editor, ETL)
    expect(editor.locator("#verdict")).to_contain_text("Valid")
    editor.locator(".cm-line").filter(has_text="name: City ETL").dblclick()  # a word of it
    editor.keyboard.type("Plain")
    until(lambda: "Plain" in editor.evaluate("weirEditor.text()"), "what is typed is there")
    editor.keyboard.press("Control+A")
    editor.keyboard.type("n")
    until(lambda: editor.evaluate("weirEditor.text()") == "n", "all of it is replaced")
    editor.keyboard.press("Control+z")
    until(lambda: "Plain" in editor.evaluate("weirEditor.text()"), "and can be taken back")

    flows.write(editor, ETL.replace("City ETL", "Columns").replace(
        "type: interpolate, config: {window: 5}", "type: block_average, config: {window: 5, by: [obs]}"))
    expect(editor.locator("#verdict")).to_contain_text("Valid")
    editor.evaluate("""() => {
        const text = weirEditor.text();
        weirEditor.view.dispatch({ selection: { anchor: text.indexOf("[obs]") + 4 } });
        weirEditor.view.focus();
    }""")
    expect(editor.locator("#columns [data-part='task']")).to_have_text("fill")
    expect(editor.locator("#columns [data-part='reads']")).to_contain_text("sensor_id string")
    editor.keyboard.type(", sens")
    expect(editor.locator(".cm-tooltip-autocomplete")).to_contain_text("sensor_id")
    editor.wait_for_timeout(100)  # a key within the first moment is taken for typing
    editor.keyboard.press("Enter")
    until(lambda: "by: [obs, sensor_id]" in editor.evaluate("weirEditor.text()"), "the name is completed")
    expect(editor.locator("#verdict")).to_contain_text("Valid")


def test_a_dropped_file_is_opened_in_its_format(editor: Page) -> None:
    transfer = editor.evaluate_handle(
        "text => { const t = new DataTransfer(); t.items.add(new File([text], 'flow.json')); return t; }", wide(10))
    editor.dispatch_event(".cm-content", "drop", {"dataTransfer": transfer})
    expect(editor.get_by_label("Format")).to_have_value("json")
    expect(editor.locator("#verdict")).to_contain_text("Valid: 10 tasks")


def test_a_chosen_file_is_opened(editor: Page, tmp_path: Path) -> None:
    file = tmp_path / "etl.yaml"
    file.write_text(ETL.replace("City ETL", "From a file"))
    editor.locator("#file").set_input_files(file)
    expect(editor.locator("#verdict")).to_contain_text("Valid: 5 tasks")


def test_a_file_that_is_too_large_is_refused_in_a_sentence(editor: Page, tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_text("#" * (1024 * 1024 + 1))
    editor.locator("#file").set_input_files(file)
    expect(editor.locator(".toast-error")).to_contain_text("larger than 1 MiB")


def test_a_sample_starts_a_document_asks_before_it_replaces_text_and_leaving_warns(
    site: RunningSite, editor: Page
) -> None:
    sample, dialog = editor.locator("[data-sample]").first, editor.get_by_role("dialog")
    sample.click()  # nothing is lost: it asks nothing
    expect(editor.locator("#verdict .chip")).to_contain_text("Valid")

    # Of two drawings that overlap the later one stays.
    until(lambda: editor.evaluate("Boolean(window.weirGraphs?.[0]?.cy)"), "the preview is drawn")
    shown = editor.evaluate("""async () => {
      const [graph] = weirGraphs;
      const renamed = (prefix, [task]) => ({ ...graph.graph, tasks: [{ ...task, id: prefix }], streams: [] });
      const tasks = graph.graph.tasks;
      await Promise.all([graph.draw(renamed("earlier", tasks)), graph.draw(renamed("later", tasks))]);
      return graph.cy.nodes().map((node) => node.id());
    }""")
    assert shown == ["later"]
    assert editor.locator("#preview-graph .graph-wait").first.is_hidden()

    flows.write(editor, ETL)
    sample.click()
    dialog.get_by_role("button", name="Cancel").click()
    assert editor.evaluate("weirEditor.text()").strip() == ETL.strip()
    messages = []
    editor.on("dialog", lambda question: (question.dismiss(), messages.append(question.type)))
    editor.get_by_role("link", name="Reviews").click()
    # A click is lost while the browser's question is open: its answer has to have reached the page.
    until(lambda: editor.evaluate("1") and messages == ["beforeunload"] and editor.evaluate("1"), "the browser asks")
    sample.click()
    dialog.get_by_role("button", name="Replace").click()
    until(lambda: editor.evaluate("weirEditor.text()").strip() != ETL.strip(), "the sample is there")
    editor.get_by_role("link", name="Reviews").click()
    editor.wait_for_url(f"{site.url}/proposals/")
    assert len(messages) == 1, "a sample is nobody's work"


# The review ----------------------------------------------------------------------------------------------------------


def test_a_proposal_tells_what_starts_and_what_is_reused(merged: dict[str, str], page_of: PageOf) -> None:
    page = page_of("ben", at=None)
    page.goto(merged["stats-proposal"])
    settled(page)
    drawn(page)
    figures = page.locator(".difference b")
    expect(figures.nth(0)).to_have_text("4")
    expect(figures.nth(1)).to_have_text(str(SHARED))
    expect(page.locator("#steps .step-mark[data-state='done']")).not_to_have_count(0)
    expect(page.locator("#review")).to_contain_text("approved")
    page.get_by_role("button", name="Before", exact=True).click()
    expect(page.get_by_role("button", name="Before", exact=True)).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Table").click()
    expect(page.get_by_role("row", name=re.compile("in_range"))).to_contain_text("reused")


def test_a_removal_asks_first_and_can_be_cancelled(merged: dict[str, str], page_of: PageOf) -> None:
    page = page_of(at=None)
    page.goto(merged["etl"] + "#settings")
    settled(page)
    page.get_by_role("button", name="Remove").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Propose to remove City ETL?")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    assert page.url == merged["etl"] + "#settings"
    page.get_by_role("button", name="Remove").click()
    dialog.get_by_role("button", name="Propose removal").click()
    page.wait_for_url(re.compile("/proposals/"))
    expect(page.locator("#head .chip")).to_have_attribute("data-status", "pending")
    expect(page.locator(".task-list").last).to_be_visible()
    page.get_by_role("button", name="Cancel", exact=True).click()
    dialog.get_by_role("button", name="Cancel the proposal").click()
    expect(page.locator("#head .chip")).to_have_text("cancelled")


# The frame -----------------------------------------------------------------------------------------------------------


def test_the_theme_follows_the_system_and_a_choice_is_kept(page_of: PageOf, site: RunningSite) -> None:
    page = page_of(color_scheme="dark", width=400)
    settled(page)
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Use the light theme").click()
    light = page.evaluate(ground)
    assert light != dark

    # A narrow screen has its navigation behind a button.
    expect(page.get_by_role("link", name="Reviews")).to_be_hidden()
    page.get_by_role("button", name="Navigation").click()
    page.get_by_role("link", name="Reviews").click()
    page.wait_for_url(f"{site.url}/proposals/")
    assert page.evaluate(ground) == light
    settled(page)
    page.keyboard.press("t")
    assert page.evaluate(ground) == dark


def test_everything_is_reached_by_keyboard_and_focus_can_be_seen(page_of: PageOf, site: RunningSite) -> None:
    page = page_of()
    settled(page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    for _ in range(11):
        width = page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")
        assert width >= 2, page.evaluate("document.activeElement.outerHTML")
        page.keyboard.press("Tab")
    page.get_by_role("link", name="Skip to the content").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Find a dataflow")).to_be_focused()
    page.keyboard.type("?")
    expect(page.locator("#keys")).to_be_hidden()  # typing is no shortcut
    page.locator("#main").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("p")
    page.wait_for_url(f"{site.url}/proposals/")


def test_nothing_shifts_while_a_page_loads(
    merged: dict[str, str], page_of: PageOf, site: RunningSite, request: pytest.FixtureRequest
) -> None:
    page = page_of(at=None)
    page.add_init_script(
        "window.shift = 0; new PerformanceObserver((list) => { for (const entry of list.getEntries())"
        " if (!entry.hadRecentInput) window.shift += entry.value; }).observe({type: 'layout-shift', buffered: true});")
    pages = (f"{site.url}/", merged["stats"], f"{site.url}/dataflows/", merged["etl-proposal"])
    for address in pages if request.config.getoption("--long") else pages[:2]:
        page.goto(address)
        settled(page)
        drawn(page)
        page.wait_for_timeout(1500)
        assert page.evaluate("window.shift") < 0.1, address


def test_everything_is_found_by_the_keyboard_at_every_width(
    merged: dict[str, str], site: RunningSite, page_of: PageOf
) -> None:
    page = page_of()
    settled(page)
    page.keyboard.press("Control+k")
    page.keyboard.type("kalman")
    expect(page.locator("#find a").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/estate/tasks/"))
    page.set_viewport_size({"width": 400, "height": 860})
    page.goto(site.url)
    settled(page)
    page.get_by_role("button", name="Search everything").click()
    page.keyboard.type("City ETL")
    expect(page.locator("#find a").first).to_contain_text("City ETL")
    page.keyboard.press("Enter")
    page.wait_for_url(merged["etl"])
