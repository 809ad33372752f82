"""Pages by axe, the accessibility checker, and by their width: narrow, at the desk, and in both themes."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.conftest import PageOf
from tests.browser.drive import drawn, settled
from tests.browser.site import RunningSite

pytestmark = pytest.mark.browser

PLACES = [
    "/", "/estate/graph", "/estate/overlap", "/estate/slots", "/fragmentation/", "/estate/deployment/", "/estate/time",
    "/estate/slots/n1/0", "/estate/nodes/n1", "/problems/", "/wall/", "/dataflows/", "/dataflows/new",
    "/dataflows/own-data/?type=kafka",
    "/proposals/", "/bills/", "/profiles/", "/profiles/import", "/profiles/measure?type=senml_parse", "/task-types/",
    "/task-types/?family=source-io", "/audit/", "/alerts/", "/alerts/rules", "/alerts/notifications", "/controllers/",
    "/controllers/defragmentation/", "/estate/pacing", "/estate/tenancy",
    "/teams/", "/help/start", "/help/documents", "/password/", "/no-such-page"]
# The short run measures every page; axe looks at one of so many of them, and at the contrast of fewer: that takes
# longer than all other rules. The markup of every page is checked by tests/pages/test_every_page.py, too.
EVERY, EVERY_CONTRAST = 4, 8


def options(*, contrast: bool) -> dict:
    """What axe looks at. Names that are not their labels are experimental there, and were found before."""
    return {"resultTypes": ["violations"], "rules": {
        "label-content-name-mismatch": {"enabled": True}, "color-contrast": {"enabled": contrast}}}


_WITH_PROFILES = """
import django; django.setup()
from dashboard.approvals.services import submit_dataflow
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.profiles.services.importing import import_profiles
from dashboard.teams.models import Team, User
from tests.pages.scheduling import PROFILES, linear
carla = User.objects.get(username="carla")
[profile, *_] = import_profiles(actor=carla, text=PROFILES)
proposal = submit_dataflow(actor=carla, team=Team.objects.get(slug="city"), text=linear("accessible"))
child = next(task for task in current_estate().tasks.values() if task.parents)
print(profile.pk, proposal.dataflow_id, child.id, child.parents[0], current_estate().places[child.id][0])
"""


@pytest.fixture(scope="module")
def addresses(site: RunningSite, merged: dict[str, str]) -> list[str]:
    """Every kind of page, of dataflows that run, that wait, and that have a schedule to choose."""
    profile, scheduled, task, parent, query = site.python(_WITH_PROFILES).split()
    etl, stats = (urlsplit(merged[name]).path for name in ("etl", "stats"))
    return [
        *PLACES, etl, stats, *(urlsplit(merged[f"{name}-proposal"]).path for name in ("etl", "stats")),
        f"{etl}schedule", f"{etl}schedule/outcome", f"/dataflows/{scheduled}/",
        f"/dataflows/{scheduled}/schedule?rate=20", f"/bills/{stats.split('/')[2]}/", f"/profiles/{profile}/",
        f"/estate/tasks/{task}", f"/estate/streams/{parent}/{task}", f"/estate/queries/{query}",
        f"{etl}simulate", f"{urlsplit(merged['etl-proposal']).path}replay", f"{etl}adaptation",
        f"{etl}?range=1h#plots", f"{etl}savepoints", f"{etl}log",
        f"/estate/overlap/{etl.split('/')[2]}/{stats.split('/')[2]}"]


@pytest.mark.parametrize(("opened", "width", "themes"), [
    (400, 1280, ("light", "dark")),  # every page once: its width, then axe at the desk, in the one theme or the other
    pytest.param(1280, 1280, ("light",), marks=pytest.mark.long),
    pytest.param(400, 400, ("dark",), marks=pytest.mark.long)])
def test_axe_finds_nothing_on_any_page_and_none_is_wider_than_the_screen(
    opened: int, width: int, themes: tuple[str, ...], addresses: list[str], site: RunningSite, page_of: PageOf
) -> None:
    page, whole = page_of(width=opened, color_scheme=themes[0], at=None), opened == width
    axe, failing, too_wide = Axe(), {}, {}
    for number, address in enumerate(addresses):
        page.set_viewport_size({"width": opened, "height": 860})
        page.emulate_media(color_scheme=themes[number // EVERY_CONTRAST % len(themes)])
        page.goto(site.url + address)
        if address != "/no-such-page":
            settled(page)
            drawn(page)
        if over := page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"):
            too_wide[address] = over
        if not whole and number % EVERY:
            continue
        page.set_viewport_size({"width": width, "height": 860})
        contrast = whole or not number % EVERY_CONTRAST
        violations = axe.run(page, options=options(contrast=contrast)).response["violations"]
        failing |= {f"{address} {violation['id']}": [node["target"] for node in violation["nodes"]]
                  for violation in violations}
    assert failing == {}
    assert {address: over for address, over in too_wide.items() if over > 0} == {}
