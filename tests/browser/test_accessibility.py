"""Pages by axe, the accessibility checker, and by their width: narrow, at the desk, and in both themes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.conftest import PageOf
from tests.browser.documents import LONG, LONG_SINK, LONG_SOURCE
from tests.browser.drive import drawn, settled
from tests.browser.node import PlayedNode
from tests.browser.site import START_S, RunningSite

pytestmark = pytest.mark.browser

PLACES = [
    "/", "/estate/graph", "/estate/overlap", "/estate/slots", "/fragmentation/", "/estate/deployment/", "/estate/time",
    "/estate/slots/n1/0", "/estate/nodes/n1", "/problems/", "/wall/", "/dataflows/", "/dataflows/new",
    "/dataflows/own-data/?type=kafka",
    "/proposals/", "/bills/", "/profiles/", "/profiles/import", "/profiles/measure?type=senml_parse", "/task-types/",
    "/task-types/?family=transform-parse", "/audit/", "/alerts/", "/alerts/rules", "/alerts/notifications",
    "/controllers/",
    "/controllers/defragmentation/", "/controllers/defragmentation/dry-run?team=city", "/estate/pacing",
    "/estate/tenancy", "/teams/", "/teams/city/rules", "/password/", "/no-such-page",
    "/help/start", "/help/documents", "/help/words"]
OF_ADMINISTRATORS = ["/people/", "/estate/nodes/n1/log/0"]
OF_ANYBODY = ["/login/"]
LATER_STEPS = [f"/dataflows/own-data/{step}" for step in ("columns", "work", "target")]
# The short run measures a third of the pages, others each time; axe looks at one of so many of these, and at the
# contrast of fewer: that takes longer than all other rules. tests/pages/test_every_page.py checks the markup of every
# page, and test_contrast.py there the colours.
SHARE, EVERY, EVERY_CONTRAST = 3, 3, 6
WIDTHS, THEMES = (400, 1280), ("light", "dark")
CONTRAST = "color-contrast"


def options(*, contrast: bool, alone: bool = False) -> dict:
    """What axe looks at. Names that are not their labels are experimental there, and were found before."""
    if alone:
        return {"resultTypes": ["violations"], "runOnly": {"type": "rule", "values": [CONTRAST]}}
    return {"resultTypes": ["violations"], "rules": {
        "label-content-name-mismatch": {"enabled": True}, CONTRAST: {"enabled": contrast}}}


_WITH_PROFILES = """
import django; django.setup()
from dataclasses import asdict
from django.utils import timezone
from dashboard.approvals.services import submit_dataflow
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.profiles.models import SweepRecord, TrialRecord
from dashboard.profiles.services.importing import import_profiles
from dashboard.teams.models import Team, User
from scheduler.performance.sweep import Sweep
from tests.pages.scheduling import PROFILES, linear
carla = User.objects.get(username="carla")
[profile, *_] = import_profiles(actor=carla, text=PROFILES)
proposal = submit_dataflow(actor=carla, team=Team.objects.get(slug="city"), text=linear("accessible"))
sweep = SweepRecord.objects.create(
    task_type="pi_viete", config="{}", version=1, feed=[], slot="n1/0", bounds=asdict(Sweep()), warm_up_s=1, seconds=1,
    author=carla, team=Team.objects.get(slug="city"), status="cancelled")
trial = TrialRecord.objects.create(
    sweep=sweep, number=0, threads=1, rate_per_s=50, why="the first rate", stable=True, ended=timezone.now())
child = next(task for task in current_estate().tasks.values() if task.parents)
print(profile.pk, proposal.dataflow_id, child.id, child.parents[0], current_estate().places[child.id][0],
      sweep.pk, trial.pk)
"""

# A dataflow of which a task is divided by key over the slots of a second node; ends once it runs.
_RING = """
import django, sys, time; django.setup()
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import approve_proposal, submit_dataflow
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.services import register_node
from dashboard.profiles.services.importing import import_profiles
from dashboard.teams.models import Team, User
from tests.dashboard.schedules import at
from tests.dashboard.test_keyed_schedules import PROFILES, averages
register_node(name="n2", slots=8)
carla = User.objects.get(username="carla")
import_profiles(actor=carla, text=PROFILES)
key = submit_dataflow(actor=carla, team=Team.objects.get(slug="city"), text=averages(), schedule=at(50)).pk
ends = time.monotonic() + float(sys.argv[1])
def when(status):
    while (proposal := Proposal.objects.select_related("plan").get(pk=key)).status != status:
        assert time.monotonic() < ends, f"it is {proposal.status}, not {status}"
        time.sleep(0.05)
    return proposal
approve_proposal(actor=User.objects.get(username="ana"), proposal_id=key, digest=when("pending").plan.digest)
record = when("done").dataflow_id
print(record, current_estate().submitted[str(record)].running["mean"])
"""
_NO_SECOND_NODE = """
import django; django.setup()
from dashboard.operations.services import register_node
register_node(name="n2", slots=0)
"""


@pytest.fixture(scope="module")
def ring(site: RunningSite) -> Iterator[str]:
    """The address of the page of a ring, whose queries are on a node of their own."""
    node = PlayedNode(site.redis_url, "n2")
    node.start()
    try:
        dataflow, task = site.python(_RING, str(START_S)).split()
        yield f"/estate/tasks/{task}/ring"
        site.removes(dataflow, "ana")
    finally:
        site.python(_NO_SECOND_NODE)
        node.stop()


@pytest.fixture(scope="module")
def addresses(site: RunningSite, merged: dict[str, str], ring: str) -> Iterator[list[str]]:
    """Every kind of page, of dataflows that run, that wait, and that have a schedule to choose, with long names too."""
    (site.data_dir / "inbox" / "readings").mkdir(parents=True, exist_ok=True)
    long, long_proposal = (urlsplit(address).path for address in site.runs(LONG, "ana", team="city"))
    profile, scheduled, task, parent, query, sweep, trial = site.python(_WITH_PROFILES).split()
    etl, stats = (urlsplit(merged[name]).path for name in ("etl", "stats"))
    yield [
        *PLACES, etl, stats, *(urlsplit(merged[f"{name}-proposal"]).path for name in ("etl", "stats")),
        f"{etl}schedule", f"{etl}schedule/outcome", f"/dataflows/{scheduled}/",
        f"/dataflows/{scheduled}/schedule?rate=20", f"/bills/{stats.split('/')[2]}/", f"/profiles/{profile}/",
        f"/profiles/sweeps/{sweep}/", f"/profiles/trials/{trial}/",
        f"/estate/tasks/{task}", f"/estate/streams/{parent}/{task}", f"/estate/queries/{query}",
        f"{etl}simulate", f"{urlsplit(merged['etl-proposal']).path}replay", f"{etl}adaptation",
        f"{etl}?range=1h#plots", f"{etl}savepoints", f"{etl}log",
        f"/estate/overlap/{etl.split('/')[2]}/{stats.split('/')[2]}",
        long, long_proposal, *(f"{long}#{tab}" for tab in ("data", "performance", "costs", "versions", "settings")),
        ring, f"{long}dynamic", f"{long}versions/1", f"{long}dead-letters/{LONG_SOURCE}", f"{long}sinks/{LONG_SINK}",
        f"/dataflows/new?of={long.split('/')[2]}"]
    site.removes(long.split("/")[2], "ana")  # others count what runs


@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.long)], ids=["some", "all"])
def test_axe_finds_nothing_on_any_page_and_none_is_wider_than_the_screen(
    is_whole: bool, addresses: list[str], site: RunningSite, page_of: PageOf
) -> None:
    """Each page is loaded once: its width on a phone, then axe at the desk; of all of them at both widths and in both
    themes, of which the second one changes colours alone."""
    axe, failing, too_wide = Axe(), {}, {}
    still = {"at": None, "reduced_motion": "reduce"}  # or axe sees colours on their way from one theme to the other
    pages = {"carla": page_of(**still), "admin": page_of("admin", **still), "nobody": page_of(None, **still)}
    _begin_own_data(pages["carla"], site)
    chosen = [*addresses, *LATER_STEPS, *OF_ADMINISTRATORS, *OF_ANYBODY]
    if not is_whole:
        chosen = random.sample(chosen, len(chosen) // SHARE)
    for number, address in enumerate(chosen):
        page = pages["admin" if address in OF_ADMINISTRATORS else "nobody" if address in OF_ANYBODY else "carla"]
        theme = THEMES[number // EVERY_CONTRAST % 2]
        page.set_viewport_size({"width": WIDTHS[0], "height": 860})
        page.emulate_media(color_scheme=theme)
        page.goto("about:blank")  # else an address that differs by its tab alone is not loaded
        page.goto(site.url + address)
        _is_there(page, address)
        if (over := page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")) > 0:
            too_wide[address] = over
        looks = [(WIDTHS[1], theme, options(contrast=not number % EVERY_CONTRAST))] if not number % EVERY else []
        if is_whole:
            looks = [(width, theme, options(contrast=True, alone=theme != THEMES[0]))
                     for width in WIDTHS for theme in THEMES]
        for width, theme, looked_at in looks:
            page.set_viewport_size({"width": width, "height": 860})
            page.emulate_media(color_scheme=theme)
            if is_whole:  # of a page that changes its theme Chromium gives some colours of the other one
                page.reload()
                _is_there(page, address)
            violations = axe.run(page, options=looked_at).response["violations"]
            failing |= {f"{address} {width} {theme} {violation['id']}": [node["target"] for node in violation["nodes"]]
                        for violation in violations}
    print(*(f"{where}: {targets}" for where, targets in failing.items()), sep="\n")  # pytest shortens the comparison
    assert failing == {}
    assert too_wide == {}


def _is_there(page: Page, address: str) -> None:
    if address != "/no-such-page":
        settled(page)
        drawn(page)


def _begin_own_data(page: Page, site: RunningSite) -> None:
    """Answer the first step, without which there are no later ones."""
    page.goto(f"{site.url}/dataflows/own-data/?type=files")
    settled(page)
    page.get_by_label("Name of the dataflow").fill("Own readings")
    page.get_by_label("Path").fill("readings")
    page.get_by_role("button", name="Look at the source").press("Enter")
    page.wait_for_url("**/own-data/columns")
