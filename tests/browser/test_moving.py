"""Moving a query in a browser: dragged or by the keyboard; what it would bring, what is refused and why."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, StorageState, expect

from tests.browser import drive, flows
from tests.browser.documents import ETL
from tests.browser.drive import settled, until
from tests.browser.node import PlayedNode
from tests.browser.site import PASSWORD, RunningSite, start_site, stop_site
from tests.browser.test_accessibility import options

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("moving")]  # a site of its own

FILES = json.dumps({
    "name": "Archive", "rates": {"sense": 40},
    "tasks": [{"id": "sense", "type": "urban_sensing", "config": {"seed": 7}},
              {"id": "files", "type": "parquet_files", "config": {"folder": "archive"}}],
    "streams": [{"from": "sense", "to": "files"}]})

_OTHER_NODE = """
import django; django.setup()
from dashboard.operations.services import register_node
register_node(name="n2", slots=2)
"""
_MOVES = """
import django; django.setup()
from dashboard.approvals.models import Proposal
print(Proposal.objects.filter(plan__kind="move").count())
"""
_PLACES = """
import django, json; django.setup()
from dashboard.operations.estate_store.estate_loader import load_estate
print(json.dumps({f.slot: f.id for f in load_estate().fragments.values()}))
"""
# Each closes n2/1 in its own way, or opens it again.
_SLOTS = """
import django, sys; django.setup()
from datetime import timedelta
from django.utils import timezone
from dashboard.operations.models import NodeRow, SlotRow
way, now = sys.argv[1], timezone.now()
NodeRow.objects.filter(name="n2").update(draining_since=now if way == "drained" else None)
SlotRow.objects.filter(name="n2/1").update(reserved_for="a measurement" if way == "reserved" else "")
"""
_PAUSE = """
import django, sys; django.setup()
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.models import HandoverPause
from django.utils import timezone
from scheduler.history.series import Annotation
now_s = int(timezone.now().timestamp())
DatabaseHistory().annotate([Annotation(
    now_s, "handed_over", "query", sys.argv[1], "It stood still for a batch and 230 ms.")])
HandoverPause.objects.create(query=sys.argv[1], at_ms=1000 * now_s, gap_ms=230, between_nodes=True)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, migrated_file: Path) -> Iterator[RunningSite]:
    """A site of its own with a second node, and two dataflows on the first one."""
    running = start_site(tmp_path_factory.mktemp("moving"), migrated=migrated_file)
    other = PlayedNode(running.redis_url, "n2")
    try:
        for text in (ETL, FILES):
            running.runs(text, "ana", team="city")
        other.start()
        running.python(_OTHER_NODE)
        yield running
    finally:
        if other.is_alive():
            other.stop()
        stop_site(running)


@pytest.fixture(scope="module")
def carla(site: RunningSite, browser: Browser) -> StorageState:
    """What a browser keeps of carla, who has logged in once: hashing passwords is meant to take long."""
    page = drive.log_in(drive.context(browser), site.url, "carla", PASSWORD)
    state = page.context.storage_state()
    page.context.close()
    return state


@pytest.fixture
def open_page(site: RunningSite, browser: Browser, carla: StorageState) -> Iterator[Callable[..., Page]]:
    """The page Deployment, with the other node heard of. No script may fail."""
    opened = []

    def open_page(*, width: int = 1280, theme: str = "light") -> Page:
        context = drive.context(
            browser, viewport={"width": width, "height": 860}, color_scheme=theme, storage_state=carla)
        page = context.new_page()
        opened.append((context, drive.watch(page)))
        shown(page, site)
        return page

    yield open_page
    errors = [text for _, problems in opened for text in problems if not drive.expected(text)]
    for context, _ in opened:
        context.close()
    assert errors == []


def shown(page: Page, site: RunningSite) -> None:
    """The page, as soon as what is reported says where queries may go."""
    def is_heard() -> bool:
        page.goto(f"{site.url}/estate/deployment/")
        settled(page)
        return page.locator("[data-slot='n2/1']").count() > 0 and page.locator(
            "[data-slot='n2/1'] .deploy-closed", has_text="does not report").count() == 0

    until(is_heard, "the other node reports")


def query_on(page: Page, dataflow: str) -> Locator:
    """The query of this dataflow."""
    return page.locator("[data-query]", has_text=dataflow)


def moves(site: RunningSite) -> int:
    return int(site.python(_MOVES))


def drag(page: Page, query: Locator, slot: str) -> Locator:
    """Drop a query on a slot; the card that comes."""
    query.drag_to(page.locator(f"[data-slot='{slot}'] header"))
    page.wait_for_url(re.compile(r"[?&]slot="))
    settled(page)
    return page.locator("#preview")


def test_a_dropped_query_shows_what_the_move_would_bring_and_proposes_nothing(
    site: RunningSite, open_page: Callable[..., Page]
) -> None:
    page, before = open_page(), moves(site)
    query = query_on(page, "City ETL")
    name = query.get_attribute("data-query")
    card = drag(page, query, "n2/1")
    expect(card).to_have_attribute("data-preview", name)
    expect(card).to_contain_text(re.compile("Move .*published of City ETL to n2/1"))
    for words in ("cores to do then", "stands still for about", "to another node",
                  "City Sensing: 1 of its approvers"):
        expect(card).to_contain_text(words)
    expect(page.locator(f"#to-{name}")).to_have_value("n2/1")
    assert moves(site) == before
    card.get_by_role("link", name="Leave it").click()
    expect(page.locator("#preview")).to_have_count(0)
    assert moves(site) == before


@pytest.mark.parametrize(("way", "dataflow", "words"), [
    pytest.param("drained", "City ETL", "n2 is drained", marks=pytest.mark.long),  # all are in tests/pages
    pytest.param("reserved", "City ETL", "a measurement has it to itself", marks=pytest.mark.long),
    pytest.param("folder", "Archive", "parquet_files writes files on n1", marks=pytest.mark.long)])
def test_a_query_that_is_dropped_where_it_may_not_go_says_why(
    site: RunningSite, open_page: Callable[..., Page], way: str, dataflow: str, words: str
) -> None:
    site.python(_SLOTS, way)
    try:
        page, before = open_page(), moves(site)
        if way != "folder":
            expect(page.locator("[data-slot='n2/1'] .deploy-closed")).to_contain_text(words)
        card = drag(page, query_on(page, dataflow), "n2/1")
        expect(card.locator("[data-note='move-refused']")).to_contain_text(words)
        expect(card.get_by_role("button")).to_have_count(0)
        assert moves(site) == before
    finally:
        site.python(_SLOTS, "open")


@pytest.mark.long  # tests/pages/test_deployment.py has what a silent node takes
def test_a_silent_node_takes_nothing(site: RunningSite, open_page: Callable[..., Page]) -> None:
    page, before = open_page(), moves(site)
    site.python("""
import django; django.setup()
from dashboard.operations.services import register_node
register_node(name="n3", slots=1)
""")
    try:
        page.reload()
        settled(page)
        expect(page.locator("[data-slot='n3/0'] .deploy-closed")).to_contain_text("n3 does not report")
        card = drag(page, query_on(page, "City ETL"), "n3/0")
        expect(card.locator("[data-note='move-not-now']")).to_contain_text("n3 does not report")
        expect(card.get_by_role("button")).to_have_count(0)
        assert moves(site) == before
    finally:
        site.python("""
import django; django.setup()
from dashboard.operations.services import register_node
register_node(name="n3", slots=0)
""")


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (400, "dark")])
@pytest.mark.long  # tests/pages/test_move_previews.py has its markup, test_contrast.py there its colours
def test_what_a_move_would_bring_is_readable_on_any_screen(
    site: RunningSite, open_page: Callable[..., Page], width: int, theme: str
) -> None:
    page = open_page(width=width, theme=theme)
    for dataflow in ("City ETL", "Archive"):
        query = query_on(page, dataflow)
        query.get_by_role("combobox").select_option("n2/1")
        query.get_by_role("button", name="Preview").click()
        expect(page.locator("#preview")).to_be_visible()
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
        violations = Axe().run(page, options=options(contrast=True)).response["violations"]
        assert {violation["id"]: [node["target"] for node in violation["nodes"]] for violation in violations} == {}


def test_a_move_by_the_keyboard_is_looked_at_proposed_and_done_with_its_pause(
    site: RunningSite, open_page: Callable[..., Page], browser: Browser
) -> None:
    page = open_page()
    query = query_on(page, "City ETL")
    name, target = query.get_attribute("data-query"), "n2/1"
    chooser = query.get_by_role("combobox")
    chooser.focus()
    page.keyboard.type(target)
    expect(chooser).to_have_value(target)
    page.keyboard.press("Tab")
    expect(query.get_by_role("button", name="Preview")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#preview")).to_have_attribute("data-preview", name)
    expect(page.locator("#preview")).to_contain_text(re.compile(f"Move .*published of City ETL to {target}"))
    settled(page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Propose this move").first).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/proposals/[0-9a-f-]{36}/"))
    expect(page.locator("#head .chip")).to_have_attribute("data-status", "pending")
    proposal = page.url
    ana = drive.log_in(drive.context(browser), site.url, "ana", PASSWORD)
    flows.approve(ana, proposal)
    flows.done(ana)
    ana.context.close()
    heir = json.loads(site.python(_PLACES))[target]
    site.python(_PAUSE, heir)
    shown(page, site)
    card = page.locator("#moves")
    expect(card.locator(f"[data-move='{proposal.rstrip('/').split('/')[-1]}']")).to_contain_text("a batch and 230 ms")
    expect(card.locator(".plot svg").first).to_be_visible()
    expect(card.locator(".plot .shapelayer .shape-label", has_text="0.23 s")).to_be_visible()
    expect(card.locator(".plot[aria-label$='moved: still for a batch and 0.23 s.']")).to_be_visible()
    for width, theme in ((1280, "dark"), (400, "light"), (400, "dark")):
        narrow = open_page(width=width, theme=theme)
        shown(narrow, site)
        expect(narrow.locator("#moves .plot .shapelayer .shape-label", has_text="0.23 s")).to_be_visible()
