"""Live figures and graphs in a browser, over a played node: deltas, gaps, lost connections, failures, 1,500 tasks."""

from __future__ import annotations

import json
import re
import time

import pytest
import redis
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

from tests.browser import flows
from tests.browser.conftest import PageOf
from tests.browser.documents import ETL, SHARED, wide
from tests.browser.drive import drawn, settled, until
from tests.browser.site import RunningSite

pytestmark = pytest.mark.browser


# Live ----------------------------------------------------------------------------------------------------------------

def test_figures_move_without_a_reload_and_go_on_after_a_gap_and_a_lost_connection(
    merged: dict[str, str], site: RunningSite, page_of: PageOf
) -> None:
    page = page_of(logs="htmx: htmx:error: Failed to fetch")
    settled(page)
    indicator = page.locator("#connection")
    expect(indicator).to_contain_text("Live")
    figure = page.locator("[data-live='counts|events_in_per_s']")
    expect(figure).to_have_text(re.compile(r"^[\d.]+/s$"))
    first = figure.text_content()
    until(lambda: figure.text_content() != first, "the rate moves")
    expect(page.locator("[data-live='counts|without_reuse']")).to_have_text("12")
    expect(page.locator("[data-live='counts|running_tasks']")).to_have_text(str(12 - SHARED))

    # A gap is closed by a snapshot.
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url) if "/live/snapshot" in request.url else None)
    page.evaluate("window.weirLive.receive({type: 'delta', topic: 'estate', from: window.weirLive.seq + 5,"
                  " seq: window.weirLive.seq + 6, patch: {counts: {submitted: 4711}}})")
    until(lambda: page.evaluate("1") and requests, "a snapshot is asked for")  # talking to the page lets its events in
    assert page.locator("[data-live='counts|submitted']").text_content() != "4\u202f711"
    seq = page.evaluate("window.weirLive.seq")
    until(lambda: page.evaluate("window.weirLive.seq") != seq, "deltas go on")

    # A lost connection is said and made again.
    page.context.set_offline(True)
    page.evaluate("window.weirLive.socket.close()")
    expect(indicator).to_contain_text("Reconnecting")
    page.context.set_offline(False)
    expect(indicator).to_contain_text("Live")


def test_a_dataflow_shows_rates_latencies_and_its_newest_events(merged: dict[str, str], page_of: PageOf) -> None:
    page = page_of(at=None)
    page.goto(merged["stats"])
    settled(page)
    drawn(page)
    expect(page.locator("#notes")).to_contain_text(f"{SHARED} of 7 tasks are shared")
    labels = until(lambda: _labels(page, "node"), "labels of tasks")
    until(lambda: any("/s ·" in text for text in _labels(page, "node")), "rates on tasks")
    assert any("with City ETL" in text for text in labels)
    until(lambda: any("/s\n" in text for text in _labels(page, "edge")), "rates on streams")

    # The graph is read with the keyboard.
    page.locator(".graph-canvas").focus()
    page.keyboard.press("]")
    card = page.locator(".graph-card")
    expect(card).to_contain_text("sensors")
    expect(card).to_contain_text("urban_sensing")
    page.keyboard.press("]")
    expect(card).to_contain_text("parsed")
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    page.get_by_role("button", name="Table").click()
    expect(page.get_by_role("row", name=re.compile("^in_range range_filter"))).to_contain_text("City ETL")

    page.get_by_role("tab", name="Data").click()
    events = page.locator("[data-output]").first
    rows = events.locator("tbody tr")
    expect(rows.first).to_be_visible()
    first = rows.first.text_content()
    until(lambda: rows.first.text_content() != first, "newer events")
    events.get_by_role("button", name="Pause").click()
    page.wait_for_timeout(1200)
    paused = rows.first.text_content()
    page.wait_for_timeout(2200)
    assert rows.first.text_content() == paused


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_values_of_an_output_are_drawn_by_the_columns_that_one_chooses(
    merged: dict[str, str], page_of: PageOf, theme: str
) -> None:
    page = page_of(at=None, color_scheme=theme)
    page.goto(merged["stats"] + "#data")
    settled(page)
    chart = page.locator("[data-values]").first
    summary = chart.locator("summary")
    summary.focus()
    page.keyboard.press("Enter")
    expect(chart.locator(".main-svg").first).to_be_visible()
    column, by = chart.locator("[data-part='value']"), chart.locator("[data-part='by']")
    names = column.locator("option").evaluate_all("options => options.map((option) => option.value)")
    assert len(names) > 1 and column.input_value() in names
    expect(page).to_have_url(re.compile(rf"\?value\.\w+={column.input_value()}#data$"))
    figure = "document.querySelector('[data-values] .plot').data[0].y.at(-1)"
    first = page.evaluate(figure)
    until(lambda: page.evaluate(figure) != first, "newer values")
    key = next(name for name in names if name != column.input_value())
    by.select_option(key)
    expect(page).to_have_url(re.compile(rf"&by\.\w+={key}#data$"))
    until(lambda: chart.locator(".chart-legend button").count() > 1, "a line for each key")
    switch = chart.locator(".chart-legend button").first
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "false")
    looked_at = {"runOnly": ["wcag2a", "wcag2aa"], "rules": {"color-contrast": {"enabled": theme == "dark"}}}
    violations = Axe().run(page, options=looked_at).response["violations"]
    assert [violation["id"] for violation in violations] == []
    page.reload()
    settled(page)
    expect(chart.locator(".main-svg").first).to_be_visible()
    expect(by).to_have_value(key)
    summary.click()
    expect(page).to_have_url(re.compile(r"/#data$"))


@pytest.mark.long  # the next test has the note of a dataflow, tests/dashboard/test_live.py what the estate is sent
def test_a_failing_query_is_told_with_its_cause(merged: dict[str, str], site: RunningSite, page_of: PageOf) -> None:
    with redis.Redis.from_url(site.redis_url) as broker:
        desired = json.loads(broker.get("weir:desired:n1"))
    fragment = next(f["id"] for slot in desired["slots"].values() for f in slot["fragments"])
    page = page_of("admin")
    settled(page)
    try:
        site.node.failing[fragment] = "AnalysisException: no column temperature"
        expect(page.locator("#health")).to_contain_text("no column temperature")
        expect(page.locator("#failing")).to_have_text("1")
        page.locator("#health a[href*='/dataflows/']").first.click()
        expect(page.locator("#notes")).to_contain_text("no column temperature")
    finally:
        site.node.failing.clear()
    expect(page.locator("#notes")).not_to_contain_text("no column temperature")


def test_a_query_that_was_given_up_marks_its_task_and_is_tried_again(
    merged: dict[str, str], site: RunningSite, page_of: PageOf
) -> None:
    with redis.Redis.from_url(site.redis_url) as broker:
        desired = json.loads(broker.get("weir:desired:n1"))
    fragment, task = next(
        (f["id"], task["id"]) for slot in desired["slots"].values() for f in slot["fragments"] for task in f["tasks"]
        if task["type"] == "kalman_filter")
    page = page_of(at=None)
    page.goto(merged["stats"])
    settled(page)
    drawn(page)
    try:
        site.node.failures[fragment] = {
            "gave_up": True, "retry_at_ms": None, "failures": 9, "failed_tasks": [task],
            "traceback": "Traceback (most recent call last):\nValueError: no number"}
        site.node.failing[fragment] = f"task {task}: ValueError: no number"
        note = page.locator(f"[data-failing='{fragment}']")
        expect(note).to_have_attribute("data-failed", "smooth")
        expect(note).to_have_attribute("data-gave-up", "yes")
        expect(note).to_contain_text("task smooth: ValueError")
        # Undefined until the graph of a page that was just opened is drawn.
        marked = "window.weirGraphs?.[0]?.cy?.nodes('.failed').map((node) => node.id())"
        until(lambda: page.evaluate(marked) == ["smooth"], "the task alone is marked")
        note.locator("summary").click()
        expect(note.locator("pre")).to_contain_text("ValueError: no number")
        note.get_by_role("button", name="Try again").click()
        expect(note).to_have_count(0)
        until(lambda: page.evaluate(marked) == [], "no task is marked")
    finally:
        site.node.failing.clear()
        site.node.failures.clear()


def test_charts_are_drawn_and_their_range_is_in_the_address(merged: dict[str, str], page_of: PageOf) -> None:
    page = page_of(at=None)
    page.goto(merged["etl"] + "#plots")
    settled(page)
    panel, rate = page.locator("[data-charts]"), page.locator("[data-chart='rate']")
    expect(rate.locator(".js-line").first).to_be_attached()
    expect(rate.locator(".plot")).to_have_attribute("aria-label", re.compile("Events per second. in: last"))
    page.evaluate("window.stays = true")
    page.get_by_role("link", name="7 days").click()
    expect(page).to_have_url(re.compile(r"\?range=7d#plots$"))
    expect(panel).to_have_attribute("data-drawn", "Last 7 days")
    page.get_by_label("Lay an earlier time over it").select_option("week")
    expect(page.locator("[data-part='says']")).to_contain_text("nothing is kept of a week before")
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press(",")
    expect(page).to_have_url(re.compile(r"\?from=.*&to=.*&over=week#plots$"))
    expect(panel).to_have_attribute("data-drawn", re.compile("UTC$"))
    page.go_back()
    page.go_back()
    expect(panel).to_have_attribute("data-drawn", "Last 7 days")
    rate.get_by_text("As a table").click()
    expect(rate.get_by_role("columnheader", name="in, /s")).to_be_visible()
    expect(rate.locator("tbody tr").first).to_contain_text(re.compile(r"\d{4}-\d\d-\d\d"))
    assert page.evaluate("window.stays"), "the page was not loaded anew"
    page.reload()
    settled(page)
    expect(page.get_by_role("link", name="7 days")).to_have_attribute("aria-current", "true")


@pytest.mark.long  # the short run takes the main ways of a page
def test_a_frame_in_a_chart_is_the_range_of_all_and_live_charts_move_on(
    merged: dict[str, str], page_of: PageOf
) -> None:
    page = page_of(at=None)
    page.goto(merged["etl"] + "?range=5m#plots")
    settled(page)
    axis = "document.querySelector('[data-chart=rate] .plot').layout?.xaxis.range[0]"
    page.locator("[data-chart='rate'] .js-line").first.wait_for(state="attached")
    before = page.evaluate(axis)
    until(lambda: page.evaluate(axis) != before, "the range moves on")
    box = page.locator("[data-chart='rate'] .nsewdrag").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 120, box["y"] + 60)  # the newest part, where something is drawn
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 60, steps=5)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"\?from=.*&to=.*#plots$"))
    latency = "document.querySelector('[data-chart=latency] .plot').layout?.xaxis.range.join()"
    until(lambda: page.evaluate(latency) == page.evaluate(latency.replace("latency", "rate")), "all charts follow")


@pytest.mark.long
def test_a_figure_that_does_not_come_says_so_until_it_does(merged: dict[str, str], page_of: PageOf) -> None:
    page = page_of(logs="500 for", at=None)
    page.route("**/charts.json*", lambda route: route.fulfill(status=500, body="{}"))
    page.goto(merged["etl"] + "#plots")
    settled(page)
    rate = page.locator("[data-chart='rate']")
    expect(rate.locator(".plot-empty")).to_have_text("No figure came from the site. Trying again.")
    page.unroute("**/charts.json*")
    expect(rate.locator(".main-svg").first).to_be_visible()
    expect(rate.locator(".plot-empty")).to_be_hidden()


@pytest.mark.long  # tests/dashboard/test_problems.py has both pages
def test_from_a_problem_to_its_cause_in_two_clicks(merged: dict[str, str], site: RunningSite, page_of: PageOf) -> None:
    query = site.node.fragments()[0]
    site.node.failing[query] = "ValueError: no number"
    site.node.failures[query] = {"failures": 4, "traceback": "Traceback: in clean"}
    try:
        page = page_of(at=None)
        page.goto(f"{site.url}/problems/")
        settled(page)
        problem = page.locator(f"[data-problem='query/{query}']")
        expect(problem).to_contain_text("ValueError: no number")
        expect(page.locator("[data-problem]").first).to_have_attribute("data-severity", "bad")
        problem.get_by_role("link", name=re.compile("^Query")).click()
        expect(page.get_by_role("alert")).to_contain_text("ValueError: no number")
        page.get_by_text("Traceback", exact=True).click()
        expect(page.locator("#query-traceback pre")).to_contain_text("in clean")
    finally:
        site.node.failing.clear()
        site.node.failures.clear()


@pytest.mark.long
def test_the_wall_fills_the_screen_at_a_key_and_is_live(
    merged: dict[str, str], site: RunningSite, page_of: PageOf
) -> None:
    page = page_of(at=None)
    page.goto(f"{site.url}/wall/")
    settled(page)
    page.locator("[data-chart='rate'][data-drawn]").wait_for(state="attached")
    expect(page.get_by_role("navigation")).to_have_count(0)
    rate = page.locator("[data-live='counts|events_in_per_s']")
    before = rate.inner_text()
    until(lambda: rate.inner_text() not in (before, "–"), "the figure moves")
    page.keyboard.press("f")
    until(lambda: page.evaluate("document.fullscreenElement !== null"), "the screen is filled")
    assert page.evaluate("Object.keys(localStorage).filter((key) => key !== 'weir-theme').length") == 0


# Graphs --------------------------------------------------------------------------------------------------------------


def test_a_task_opens_beside_the_graph_and_can_be_linked_to(merged: dict[str, str], page_of: PageOf) -> None:
    page = page_of()
    page.goto(f"{merged['stats']}?task=smooth")
    settled(page)
    card = page.locator(".graph-card")
    expect(card.get_by_role("heading", name="smooth")).to_be_visible()
    expect(card).to_contain_text("kalman_filter")
    expect(card.locator("[data-event]").first).to_be_visible()
    card.get_by_text("In from in_range").click()
    expect(card.get_by_role("region", name="In from in_range").locator("[data-event]").first).to_be_visible()
    expect(card.locator("[data-part='columns']")).to_contain_text("sensor_id")
    card.get_by_role("button", name="Close smooth").focus()
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    expect(page.locator(".graph-canvas")).to_be_focused()
    expect(page).to_have_url(merged["stats"])
    page.keyboard.press("]")
    expect(page).to_have_url(re.compile(r"\?task=sensors$"))


def test_back_pressure_is_a_colour_and_a_word(merged: dict[str, str], site: RunningSite, page_of: PageOf) -> None:
    page = page_of()
    page.goto(merged["etl"])
    settled(page)
    drawn(page)
    fragment = until(lambda: page.evaluate("window.weirLive?.state?.tasks?.stations?.fragment"), "a live state")
    coloured = "window.weirGraphs[0].cy.nodes('.{}').length"
    try:
        site.node.told[fragment] = {"throttled_by": f"{fragment}.0"}
        until(lambda: any("back-pressure" in text for text in _labels(page, "node")), "it is said")
        assert page.evaluate(coloured.format("throttled"))
        site.node.told[fragment] = {"batch_ms": 490}
        until(lambda: any("busy 98%" in text for text in _labels(page, "node")), "how busy it is")
        assert page.evaluate(coloured.format("busy")) and not page.evaluate(coloured.format("throttled"))
    finally:
        site.node.told.clear()
    until(lambda: not any("busy" in text for text in _labels(page, "node")), "it is over")


def test_who_sends_a_form_comes_back_to_where_they_were(merged: dict[str, str], page_of: PageOf) -> None:
    page = page_of("ana", width=400)
    page.goto(merged["etl"])
    settled(page)
    page.get_by_role("tab", name="Settings").click()
    button = page.locator("#when-behind").get_by_role("button", name="Set")
    button.scroll_into_view_if_needed()
    before = page.evaluate("scrollY")
    button.click()
    expect(page.locator(".toast")).to_contain_text("If it is too slow")
    settled(page)
    expect(page.locator("#when-behind")).to_be_visible()
    until(lambda: abs(page.evaluate("scrollY") - before) < 120, "it is as far down as it was")


def test_a_graph_is_there_with_its_page(merged: dict[str, str], page_of: PageOf) -> None:
    """Nothing is asked for before it is drawn, and a graph of many tasks is no other way."""
    page = page_of()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url) if "graph.json" in request.url else None)
    for address in (merged["etl"], merged["etl-proposal"]):
        page.goto(address)
        drawn(page)
    assert requests == []
    page.set_viewport_size({"width": 400, "height": 860})
    spread = "(({ w, h }) => h - w)(weirGraphs[0].cy.nodes().boundingBox())"
    until(lambda: page.evaluate(spread) > 0, "on a window that was turned it reads downwards")


@pytest.mark.long
def test_1500_tasks_are_drawn_with_their_page(site: RunningSite, page_of: PageOf) -> None:
    page = page_of("admin")
    page.goto(flows.submit(page, site.url, wide(1500), team="city"))
    drawn(page)
    assert page.locator(".graph-stage").get_attribute("data-drawn") == "1500"
    settled(page)
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()


def _labels(page: Page, kind: str) -> list[str]:
    return page.evaluate(f"window.weirGraphs[0].cy.elements('{kind}').map((part) => part.data('text'))")


@pytest.mark.long  # the short run takes the main ways of a page
def test_what_changed_before_the_first_snapshot_is_shown(site: RunningSite, page_of: PageOf) -> None:
    """A plan may be there after the page was made and before its first live state came."""
    page = page_of("carla", at=None)

    def late(route: Route) -> None:
        time.sleep(2)
        route.continue_()

    page.route("**/live/snapshot*", late)
    flows.submit(page, site.url, ETL.replace("City ETL", "City ETL, late"), team="city")
