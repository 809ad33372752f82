"""The page of dynamic tasks, over an hour of history: charts, a dry run, a switch; the emergency stop; the editor."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import PageOf
from tests.browser.drive import drawn, settled
from tests.browser.flows import write
from tests.browser.site import RunningSite

pytestmark = pytest.mark.browser

# A dataflow that runs, and an hour in which more and fewer events came: guards switched it twice, people once.
_RUNNING = """
import django, json, math, time; django.setup()
from django.utils import timezone
from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import approve_proposal, prepare_proposal, submit_dataflow
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.policies.guard_watches import subject_of
from dashboard.teams.models import Team, User
from scheduler.history.series import Annotation
from workers.engine.channels import keys
from django.conf import settings
ways = [
    {"name": "exact", "type": "sql", "config": {"query": "SELECT *, 'exact' AS made FROM input"}, "value": 1,
     "guard": "NOT latch(mean(rate, '1 min') > 120, mean(rate, '1 min') < 90) AND latency_ms < 2000"},
    {"name": "sampled", "type": "sql", "value": 0.6,
     "config": {"query": "SELECT *, 'sampled' AS made FROM input WHERE _seq % 3 = 0"}},
    {"name": "coarse", "type": "sql", "value": 0.25, "guard": "for_at_least(rate > 150, '30 s')",
     "config": {"query": "SELECT *, 'coarse' AS made FROM input WHERE _seq % 20 = 0"}}]
text = json.dumps({"name": "Dynamic alarms", "tasks": [
    {"id": "readings", "type": "urban_sensing"}, {"id": "parse", "type": "senml_parse"},
    {"id": "score", "alternates": ways}, {"id": "alarms", "type": "output", "config": {"name": "dynamic-alarms"}}],
    "streams": [{"from": "readings", "to": "parse"}, {"from": "parse", "to": "score"},
                {"from": "score", "to": "alarms"}], "rates": {"readings": 40}})
carla, ana = (User.objects.get(username=name) for name in ("carla", "ana"))
proposal = submit_dataflow(actor=carla, team=Team.objects.get(slug="city"), text=text)
while proposal.status == "computing":
    time.sleep(0.2)
    proposal = Proposal.objects.select_related("plan").get(pk=proposal.pk)
approve_proposal(actor=ana, proposal_id=proposal.pk, digest=proposal.plan.digest)
estate = current_estate()
running = estate.submitted[str(proposal.dataflow_id)].running["score"]
subject, history, now = subject_of(estate, running), DatabaseHistory(), int(time.time())
rates, late = subject.series("rate"), subject.series("latency_ms")
query = estate.places[running][0]
for second in range(now - 3600, now - 60, 10):
    part = (second - now + 3600) / 3600
    rate = 70 + 75 * math.exp(-((part - 0.32) / 0.07) ** 2) + 130 * math.exp(-((part - 0.7) / 0.06) ** 2)
    waves = math.sin(second / 23), math.sin(second / 41)
    history.append(second, {rates[0]: rate + 6 * waves[0], late[0]: 180 + rate + 30 * waves[1]})
    if second % 300 < 10:
        history.flush()
history.flush()
history.tidy(now)
noted = [("exact", 3590), ("sampled", 2440), ("exact", 2150), ("sampled", 1180), ("coarse", 1000), ("sampled", 880),
         ("exact", 760)]
connection = jobs.broker(settings.REDIS_URL)
for batch, (alternate, ago) in enumerate(noted):
    connection.hset(keys.switches(running), f"{query}:{batch}", json.dumps({
        "alternate": alternate, "query": query, "batch": batch, "seq": 1000 * batch, "at_ms": 1000 * (now - ago)}))
why = "because exact is allowed and has the highest value (1) (mean(rate, '1 min') = 88.1)."
history.annotate([
    Annotation(now - ago, "switch", "dataflow", str(proposal.dataflow_id),
               f"score of Dynamic alarms: {alternate} is on, {why}") for alternate, ago in noted[1:]])
print(proposal.dataflow_id)
"""


# Another one, of which no switch is under way.
_PLAIN = """
import django, json, time; django.setup()
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import approve_proposal, submit_dataflow
from dashboard.teams.models import Team, User
carla, ana = (User.objects.get(username=name) for name in ("carla", "ana"))
text = json.dumps({"name": "Plain readings", "tasks": [
    {"id": "readings", "type": "urban_sensing", "config": {"sensors": 3}},
    {"id": "out", "type": "output", "config": {"name": "plain-readings"}}],
    "streams": [{"from": "readings", "to": "out"}], "rates": {"readings": 5}})
proposal = submit_dataflow(actor=carla, team=Team.objects.get(slug="city"), text=text)
while proposal.status != "done":
    time.sleep(0.2)
    proposal = Proposal.objects.select_related("plan").get(pk=proposal.pk)
    if proposal.status == "pending":
        approve_proposal(actor=ana, proposal_id=proposal.pk, digest=proposal.plan.digest)
print(proposal.dataflow_id)
"""


@pytest.fixture(scope="module")
def alarms(site: RunningSite) -> str:
    """The address of the dataflow."""
    return f"{site.url}/dataflows/{site.python(_RUNNING).split()[-1]}/"


def test_charts_and_a_dry_run_on_one_time_line_without_fault_for_axe(
    alarms: str, page_of: PageOf, request: pytest.FixtureRequest
) -> None:
    page, axe, faults = page_of(width=1280), Axe(), {}
    page.goto(f"{alarms}dynamic?range=1h")
    settled(page)
    expect(page.locator("[data-chart='on'][data-drawn]")).to_be_visible()
    page.get_by_text("Try another policy on this time").click()
    page.get_by_label("exact is allowed while").fill("rate < 100")
    page.get_by_role("button", name="Dry run").click()
    page.wait_for_url("**try=score**")
    settled(page)
    expect(page.locator("[data-trial]")).to_contain_text("It would have switched")
    legend = page.locator("[data-chart='on'] .chart-legend")
    expect(legend).to_contain_text("dry run: would be on")
    page.locator("[data-chart='on'] summary").click()
    expect(page.locator("[data-chart='on'] [data-part='table']")).to_contain_text("sampled on")
    looks = [(400, "dark"), (1280, "light")]
    for width, theme in looks if request.config.getoption("--long") else looks[:1]:
        page.set_viewport_size({"width": width, "height": 860})
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        page.reload()  # so that no colour is on its way from one theme to the other
        settled(page)
        drawn(page)
        violations = axe.run(page, options={"resultTypes": ["violations"]}).response["violations"]
        faults |= {
            f"{width} {fault['id']}": [(node["html"], node["any"]) for node in fault["nodes"]] for fault in violations}
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert faults == {}


def test_a_dynamic_task_opens_in_the_graph_by_keyboard(alarms: str, page_of: PageOf) -> None:
    page = page_of(at=None)
    page.goto(alarms)
    settled(page)
    drawn(page)
    nodes = "window.weirGraphs[0].cy.nodes('.way').map((node) => node.data('text')).sort()"
    assert page.evaluate(nodes) == []
    page.evaluate("window.weirGraphs[0].select('score')")
    page.locator(".graph-canvas").press("Enter")
    expect(page.locator("[data-graph-do='ways']")).to_have_text("Close its alternates")
    ways = page.evaluate(nodes)
    assert {text[2:] for text in ways} == {"coarse: sql", "exact: sql", "sampled: sql"}
    assert sum(text.startswith("●") for text in ways) == 1
    page.locator(".graph-canvas").press("Enter")
    expect(page.locator("[data-graph-do='ways']")).to_have_text("Open its alternates")
    assert page.evaluate(nodes) == []


def test_the_editor_completes_and_explains_guards(site: RunningSite, page_of: PageOf) -> None:
    page = page_of(at=None)
    page.goto(f"{site.url}/dataflows/new")
    settled(page)
    write(page, _TEXT)
    expect(page.locator("#problems")).to_contain_text("line 9, column 17")
    expect(page.locator("#problems")).to_contain_text("there is no figure lat")
    page.evaluate("""() => { const editor = window.weirEditor, at = editor.text().indexOf('"lat"') + 4;
        editor.view.dispatch({selection: {anchor: at}}); editor.view.focus(); }""")
    page.keyboard.type("e")
    options = page.locator(".cm-tooltip-autocomplete li")
    expect(options.first).to_contain_text("latency_ms")
    expect(options.first).to_contain_text("mean age of the events that leave it, in ms")
    options.first.click()  # Enter right after the list has opened is a new line
    expect(page.locator("#problems")).not_to_contain_text("there is no figure")
    explained = page.evaluate("""() => { const editor = window.weirEditor, text = editor.text(), say = (part, more) => {
        const found = editor.columns.explain(editor.view.state, text.indexOf(part) + more);
        return found && found.create().dom.textContent; };
        return [say("guard:", 2), say("latency_ms", 3), say("exact", 2), say("from: work", 2)]; }""")
    assert explained[0] == "When it may be on." and "mean age" in explained[1] and explained[2] is None
    assert explained[3] == "The id of one task, whose events it carries."
    page.evaluate("""() => { const editor = window.weirEditor, at = editor.text().indexOf("to: keep") + 8;
        editor.view.dispatch({selection: {anchor: at}}); editor.view.focus(); }""")
    page.keyboard.type(", o")
    expect(options).to_have_text(["output"])  # of the keys of a stream those that it does not have


@pytest.mark.long  # tests/dashboard/test_emergency_stop.py has the page, test_pages.py a dialog that asks first
def test_an_emergency_stop_asks_for_a_reason_and_enter_sends_it(site: RunningSite, page_of: PageOf) -> None:
    page = page_of(at=None)
    page.goto(f"{site.url}/dataflows/{site.python(_PLAIN).split()[-1]}/")
    settled(page)
    page.get_by_role("button", name="Pause at once").press("Enter")
    reason = page.locator("#confirm").get_by_label("Reason")
    expect(reason).to_be_focused()
    reason.press("Enter")
    expect(page.locator("#confirm")).to_be_visible()  # a reason is needed
    reason.fill("It writes wrong rows.")
    reason.press("Enter")
    expect(page.locator("[data-flash='paused-at-once']")).to_be_visible()
    expect(page.locator("[data-note='stopped']")).to_contain_text("Emergency stop by carla: It writes wrong rows.")


_TEXT = """\
name: air
tasks:
  - {id: readings, type: urban_sensing}
  - id: work
    alternates:
      - name: exact
        type: sql
        config: {query: "SELECT * FROM input"}
        guard: "lat"
      - {name: few, type: sql, config: {query: "SELECT * FROM input"}}
  - {id: keep, type: output, config: {name: kept}}
streams:
  - {from: readings, to: work}
  - {from: work, to: keep}
rates: {readings: 10}
"""
