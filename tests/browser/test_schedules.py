"""Schedules in a browser: the slider moves the table and the curve, by mouse and keyboard, on a desk and on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Error, Page, Route, expect

from tests.browser import drive
from tests.browser.conftest import PageOf
from tests.browser.drive import settled, until
from tests.browser.site import PASSWORD, RunningSite, start_site, stop_site

pytestmark = pytest.mark.browser

_ASKED = """
import django; django.setup()
from dashboard.approvals.services import submit_dataflow
from dashboard.profiles.services.importing import import_profiles
from dashboard.teams.models import Team, User
from tests.pages.scheduling import PROFILES, linear
carla = User.objects.get(username="carla")
import_profiles(actor=carla, text=PROFILES)
proposal = submit_dataflow(actor=carla, team=Team.objects.get(slug="city"), text=linear("scheduled"))
print(proposal.dataflow_id)
"""


@pytest.fixture(scope="module")
def address(site: RunningSite) -> str:
    """The address of the schedules of a dataflow that waits for its review."""
    return f"{site.url}/dataflows/{site.python(_ASKED).strip()}/schedule"


def slots_of(page: Page) -> int:
    """The slots of the chosen pair, as the figures above the curve say."""
    return int(page.locator("[data-part='headline'] dd").first.inner_text())


def over(page: Page) -> int:
    """By how much the page is wider than the screen."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@pytest.mark.parametrize("width", [1280, pytest.param(400, marks=pytest.mark.long)])
def test_the_slider_moves_slots_and_price(address: str, page_of: PageOf, width: int) -> None:
    page = page_of(width=width, at=None)
    page.goto(f"{address}?rate=20")
    settled(page)
    slider = page.locator("input[type='range'][data-steps]")
    before = slots_of(page)
    slider.focus()
    page.keyboard.press("End")
    card = page.locator("[data-what-if]")
    most = slider.get_attribute("data-most")
    expect(card).to_have_attribute("data-at", re.compile(rf"^{float(most):g}$"))
    assert slots_of(page) > before
    expect(page.locator("output[data-part='rate']")).to_have_text(f"{float(most):g}/s")
    assert page.locator("#used-title + .muted").text_content() == f"each task at {float(most):g}/s"
    assert page.locator(".used-table [data-rate-of]").first.text_content() == f"{float(most):g}/s"
    assert f"rate={float(most):g}" in page.url
    expect(slider).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(card).not_to_have_attribute("data-at", re.compile(rf"^{float(most):g}$"))
    # Our own comes when the slider rests.
    expect(page.locator("tr[data-pair='MBA-exact']")).to_contain_text("proved")
    expect(page.locator("[data-figure='curve'][data-drawn] .plot svg").first).to_be_visible()
    expect(page.locator(".plot .shapelayer path").first).to_be_attached()
    page.locator("#pair-LSA-DSM").check()
    expect(page.locator("tr[data-pair='LSA-DSM']")).to_have_attribute("data-chosen", "")
    expect(page.locator("#pair-LSA-DSM")).to_be_focused()
    assert over(page) <= 0


def test_a_rate_is_asked_for_at_once_and_of_those_that_come_meanwhile_the_newest(address: str, page_of: PageOf) -> None:
    page = page_of(width=1280, at=None)
    page.goto(f"{address}?rate=20")
    settled(page)
    expect(page.locator("tr[data-pair='MBA-exact']")).to_contain_text("proved")
    questions: list[dict[str, list[str]]] = []
    page.on("request", lambda request: "pairs.json" in request.url and questions.append(
        parse_qs(urlsplit(request.url).query)))
    slider = page.locator("input[type='range'][data-steps]")
    # All in one go of the browser's loop: no answer comes in between, however fast the site is.
    moved = slider.evaluate("""slider => [350, 300, 250, 200].map(step => {
        slider.value = step;
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        return document.querySelector("[data-what-if] input[name='rate']").value;
    })""")
    expect(page.locator("[data-what-if]")).to_have_attribute("data-at", moved[-1])
    # Where a busy machine answers late, the newest may be asked for together with our own mapping, or once more for it.
    rates = [rate for rate, _ in groupby(question["rate"][0] for question in questions)]
    assert len(set(moved)) == 4 and rates == [moved[0], moved[-1]]


def test_what_is_proposed_is_what_the_field_says(address: str, page_of: PageOf) -> None:
    page = page_of(width=1280, at=None)
    page.goto(f"{address}?rate=10")
    settled(page)
    card, propose = page.locator("[data-what-if]"), page.locator("[data-part='propose']")
    carried, cannot = page.locator("[data-part='propose-rate']"), page.locator("[data-part='cannot']")
    expect(propose).to_be_enabled()
    field = page.get_by_role("spinbutton")
    most = float(page.locator("input[type='range'][data-steps]").get_attribute("data-most") or 0)
    field.fill(f"{100 * most:g}")
    expect(propose).to_be_disabled()
    expect(cannot).to_have_text("The table shows another rate. Compare first.")
    field.fill("12")
    expect(card).to_have_attribute("data-at", "12")
    expect(propose).to_be_enabled()
    expect(cannot).to_have_text("")
    expect(carried).to_have_value("12")
    # While the answer is awaited, what is shown is not what the field says.
    asked_for: list[Route] = []
    page.route("**/pairs.json*", lambda route: asked_for.append(route))
    field.fill("11")
    until(lambda: page.evaluate("1") and asked_for, "the question")  # a call lets the routes come in
    expect(propose).to_be_disabled()
    page.unroute("**/pairs.json*")
    with suppress(Error):  # given up for a newer one, on a slow machine
        asked_for[0].continue_()
    expect(propose).to_be_enabled()
    expect(carried).to_have_value("11")


_CHOSEN = """() => {
    const row = document.querySelector("tr[data-chosen]");
    const part = (name) => document.querySelector(`[data-part='${name}']`);
    return {
        rows: document.querySelectorAll("tr[data-chosen]").length, pair: row.dataset.pair,
        checked: document.querySelector("input[name='pair']:checked").value,
        slots: row.querySelector(".at-slots strong").textContent,
        shown: part("headline").querySelector("dd").textContent,
        cannot: row.querySelector("input").dataset.cannot, told: part("cannot").textContent,
        enabled: !part("propose").disabled, address: new URLSearchParams(location.search).get("pair"),
    };
}"""


def shown(page_of: PageOf, address: str, pair: str) -> Page:
    """The page of a pair at 20 events/s."""
    page = page_of(width=1280, at=None)
    page.goto(f"{address}?rate=20&pair={pair}")
    settled(page)
    return page


def assert_shown(page: Page, pair: str) -> None:
    """All that is shown is of this pair, now and not in a moment."""
    chosen = page.evaluate(_CHOSEN)
    assert (chosen["rows"], chosen["pair"], chosen["checked"], chosen["address"]) == (1, pair, pair, pair)
    assert chosen["shown"] == chosen["slots"]
    assert chosen["told"] == chosen["cannot"] and chosen["enabled"] is not bool(chosen["cannot"])


def test_another_pair_is_shown_at_once_and_the_site_is_not_asked_for_it(address: str, page_of: PageOf) -> None:
    page = shown(page_of, address, "LSA-DSM")
    expect(page.locator("tr[data-pair='MBA-exact']")).to_contain_text("proved")
    questions: list[Route] = []
    page.route("**/pairs.json*", lambda route: questions.append(route))  # none of them is answered
    radios = page.locator("[data-part='pairs'] input:enabled")
    pairs = radios.evaluate_all("radios => radios.map(radio => radio.value)")
    assert len(pairs) > 4 and pairs[0] == "LSA-DSM"
    radios.first.focus()
    for pair in pairs[1:]:
        page.keyboard.press("ArrowDown")
        assert_shown(page, pair)
    page.locator("#pair-LSA-DSM").check()
    assert_shown(page, "LSA-DSM")
    expect(page.locator("[data-part='busy']")).to_be_hidden()
    assert questions == []


@pytest.mark.long  # the short run takes the main ways of a page
def test_a_pair_that_is_chosen_while_an_answer_is_awaited_is_shown_of_it(address: str, page_of: PageOf) -> None:
    page = shown(page_of, address, "LSA-DSM")
    expect(page.locator("tr[data-pair='MBA-exact']")).to_contain_text("proved")
    asked_for: list[Route] = []
    page.route("**/pairs.json*", lambda route: asked_for.append(route))
    page.get_by_role("spinbutton").fill("30")
    until(lambda: page.evaluate("1") and asked_for, "the question")
    page.locator("#pair-MBA-SAM").check()
    page.unroute("**/pairs.json*")
    with suppress(Error):  # given up for a newer one, on a slow machine
        asked_for[0].continue_()
    expect(page.locator("[data-what-if]")).to_have_attribute("data-at", "30")
    assert_shown(page, "MBA-SAM")


@pytest.mark.long  # the short run takes the main ways of a page
def test_a_curve_that_comes_late_does_not_take_the_place_of_the_chosen_pairs(address: str, page_of: PageOf) -> None:
    page = shown(page_of, address, "MBA-SAM")
    expect(page.locator("[data-figure='curve'][data-drawn]")).to_be_attached()
    late: list[Route] = []
    page.route("**/curve.json*pair=LSA-DSM*", lambda route: late.append(route))
    page.locator("#pair-LSA-DSM").check()
    until(lambda: page.evaluate("1") and late, "the curve is asked for")
    with page.expect_response("**/curve.json*pair=MBA-SAM*"):
        page.locator("#pair-MBA-SAM").check()
    with suppress(Error):  # given up
        late[0].fulfill(json={"curve": {"data": [], "layout": {}, "empty": "late"}})
    page.wait_for_timeout(500)
    assert page.evaluate("window.weirWhatIf.figure.data.length") == 2
    expect(page.locator("[data-figure='curve'] .plot svg").first).to_be_visible()


@pytest.mark.long  # the short run takes the main ways of a page
def test_a_curve_that_does_not_come_says_so(address: str, page_of: PageOf) -> None:
    page = page_of(width=1280, logs="500 for", at=None)
    page.route("**/curve.json*", lambda route: route.fulfill(status=500, body="{}"))
    page.goto(f"{address}?rate=10")
    settled(page)
    expect(page.locator("[data-figure='curve'] .plot-empty")).to_contain_text("There is no curve")
    page.unroute("**/curve.json*")
    page.locator("#pair-LSA-DSM").check()  # asks for another
    expect(page.locator("[data-figure='curve'] .plot svg").first).to_be_visible()
    expect(page.locator("[data-figure='curve'] .plot-empty")).to_be_hidden()


@pytest.mark.long  # the short run takes the main ways of a page
def test_where_our_own_mapping_has_no_answer_the_others_stand(address: str, page_of: PageOf) -> None:
    page = page_of(width=1280, at=None)
    page.route("**/pairs.json*complete=1*", lambda route: route.abort())
    page.goto(f"{address}?rate=10")
    settled(page)
    exact, propose = page.locator("tr[data-pair='MBA-exact']"), page.locator("[data-part='propose']")
    expect(exact).to_contain_text("Not computed. The site did not answer.")
    expect(propose).to_be_enabled()
    page.locator("#pair-LSA-DSM").check()
    assert_shown(page, "LSA-DSM")
    page.unroute("**/pairs.json*complete=1*")
    page.locator("input[type='range'][data-steps]").press("ArrowRight")
    expect(exact).to_contain_text("proved")


@pytest.mark.long  # the short run takes the main ways of a page
def test_from_any_rate_one_step_leads_back_to_the_submitted_one(address: str, page_of: PageOf) -> None:
    page = page_of(width=1280, at=None)
    page.goto(address)
    settled(page)
    link, field = page.get_by_role("link", name="As submitted: 50/s"), page.get_by_role("spinbutton")
    expect(link).to_have_count(0)
    field.fill("0.01")  # below the slider's first step
    expect(page.locator("[data-what-if]")).to_have_attribute("data-at", "0.01")
    assert field.evaluate("field => field.validity.valid"), "it can be sent, too"
    page.locator("#pair-LSA-DSM").check()
    link.click()
    expect(page.locator("output[data-part='rate']")).to_have_text("50/s")
    expect(page.locator("tr[data-pair='LSA-DSM']")).to_have_attribute("data-chosen", "")


@pytest.mark.long  # the short run takes the main ways of a page
@pytest.mark.parametrize("part", ["", "/outcome"])
def test_who_is_logged_out_meanwhile_is_asked_to_log_in(address: str, page_of: PageOf, part: str) -> None:
    page = page_of(width=1280, at=None)
    if part:
        page.clock.install()
    page.goto(f"{address}{part}")
    settled(page)
    if not part:  # the page asks for what takes long by itself: once that is there, the next question is ours
        expect(page.locator("tr[data-pair='MBA-exact']")).to_contain_text("proved")
    page.context.clear_cookies()
    if part:
        page.clock.fast_forward(10_000)
    else:
        page.get_by_role("spinbutton").fill("30")
    page.wait_for_url(re.compile(r"/login/\?next=/dataflows/" + ("" if part else ".*rate%3D30")))


_MUCH = _ASKED.replace('linear("scheduled")', 'linear("much", rate=1_000_000)')


@pytest.mark.long  # tests/pages/test_own_rates.py has the page, the test of the field what follows
def test_where_no_slot_holds_the_submitted_rate_a_lower_one_is_shown(site: RunningSite, page_of: PageOf) -> None:
    page = page_of(width=1280)
    with page.expect_response("**/pairs.json*complete=1*"):
        page.goto(f"{site.url}/dataflows/{site.python(_MUCH).strip()}/schedule")
    expect(page.locator("[data-part='headline']")).to_contain_text("events/s")
    expect(page.locator("[data-part='propose']")).to_be_disabled()
    page.get_by_role("spinbutton").fill("10")
    expect(page.locator("[data-what-if]")).to_have_attribute("data-at", "10")
    expect(page.locator("[data-part='propose']")).to_be_enabled()


_TWO = _ASKED.replace("linear", "two_sources").replace("scheduled", "two")


@pytest.mark.long  # tests/pages/test_own_rates.py has the page, the test of the field what follows
def test_sources_keep_their_own_rates_until_another_is_given(site: RunningSite, page_of: PageOf) -> None:
    page = page_of(width=1280, at=None)
    page.goto(f"{site.url}/dataflows/{site.python(_TWO).strip()}/schedule")
    settled(page)
    shown = page.locator("output[data-part='rate']")
    expect(shown).to_have_text("each source's own rate, 50/s in total")
    # Our own is asked for a moment later: at the same rates.
    expect(page.locator("tr[data-pair='MBA-exact']")).to_contain_text("proved")
    expect(shown).to_have_text("each source's own rate, 50/s in total")
    expect(page.locator("[data-part='propose-rate']")).to_have_value("")
    assert "rate=" not in page.url
    field = page.get_by_role("spinbutton")
    field.fill("20")
    expect(shown).to_have_text("20/s")
    expect(page.locator("[data-part='propose-rate']")).to_have_value("20")
    field.fill("")
    expect(shown).to_have_text("each source's own rate, 50/s in total")
    expect(page.locator("[data-part='propose-rate']")).to_have_value("")


def test_an_outcome_goes_over_to_the_schedule_that_comes_in_force(address: str, page_of: PageOf) -> None:
    """The site's answer is changed on its way, as if a schedule were in force by now."""
    page = page_of(width=1280)
    page.clock.install()
    page.goto(f"{address}/outcome")
    settled(page)

    def by_another(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace('data-of=""', 'data-of="p"').replace(
            'data-now=""', 'data-now="p"'))

    page.route("**/schedule/outcome", by_another)
    page.clock.fast_forward(10_000)
    expect(page.locator("[data-of='p'] [data-now='p']")).to_be_attached()


_MANY = """
import django, sys; django.setup()
from dashboard.operations.services import register_node
register_node(name="many", slots=int(sys.argv[1]))
"""


@pytest.mark.long  # the short run takes the main ways of a page
def test_what_is_opened_of_many_slots_stays_open_while_they_are_followed(site: RunningSite, page_of: PageOf) -> None:
    site.python(_MANY, "30")
    try:
        page = page_of(width=1280, at=None)
        page.goto(f"{site.url}/estate/slots")
        settled(page)
        cell, others = page.locator("[data-slot='many/3']"), page.locator("#slot-nodes details[open]")
        expect(others).to_have_count(0)
        cell.locator("summary").click()
        expect(cell.locator(".slot-inside")).to_be_visible()
        site.python(_MANY, "31")
        expect(page.locator("[data-slot='many/30']")).to_be_attached()
        expect(page.locator("#grid-title")).to_contain_text("33 slots")
        expect(cell.locator(".slot-inside")).to_be_visible()
        expect(others).to_have_count(1)
    finally:
        site.python(_MANY, "0")


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[RunningSite]:
    """A site whose slots are free: others' dataflows are on those of the one that tests share."""
    running = start_site(tmp_path)
    yield running
    stop_site(running)


@pytest.mark.long
def test_a_schedule_is_chosen_proposed_and_seen_on_its_slots(apart: RunningSite, browser: Browser) -> None:
    page = drive.log_in(drive.context(browser), apart.url, "carla", PASSWORD)
    errors = drive.watch(page)
    page.goto(f"{apart.url}/dataflows/{apart.python(_ASKED).strip()}/schedule?rate=10")
    settled(page)
    page.locator("#pair-MBA-SAM").check()
    page.get_by_role("button", name="Propose this schedule").click()
    page.wait_for_url(re.compile(r"/proposals/[0-9a-f-]{36}/"))
    expect(page.locator("#head .chip")).to_have_attribute("data-status", "pending")
    expect(page.locator("#bundles")).to_contain_text("1 thread, 100%")
    page.get_by_role("link", name="See the slots").click()
    page.wait_for_url(re.compile(r"/estate/slots\?proposal="))
    settled(page)
    starting = page.locator(".bundle-starts:visible")
    expect(starting).to_have_count(4)
    page.get_by_role("button", name="Before").click()
    expect(starting).to_have_count(0)
    page.get_by_role("button", name="After").click()
    expect(starting).to_have_count(4)
    assert over(page) <= 0
    page.context.close()
    assert [text for text in errors if not drive.expected(text)] == []


@pytest.mark.long
@pytest.mark.parametrize("width", [1280, 400])
def test_slots_fill_as_they_are_measured(site: RunningSite, merged: dict, page_of: PageOf, width: int) -> None:
    page = page_of(width=width, at=None)
    page.goto(f"{site.url}/estate/slots")
    settled(page)
    meter = page.locator("[data-slot='n1/0'] .fill-measured").first
    until(lambda: float(meter.evaluate("bar => bar.value")) > 0, "a slot's CPU")
    assert over(page) <= 0
