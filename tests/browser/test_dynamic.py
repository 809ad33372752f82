"""The page of dynamic tasks, over an hour of history: charts, a dry run, a switch; the emergency stop; the editor."""

from __future__ import annotations

import json

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import PageOf
from tests.browser.drive import drawn, settled
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
from dashboard.operations.guard_watches import subject_of
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
    history.append(second, {rates[0]: rate + 6 * math.sin(second / 23), late[0]: 180 + rate + 30 * math.sin(second / 41)})
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


@pytest.fixture(scope="module")
def alarms(site: RunningSite) -> str:
    """The address of the dataflow."""
    return f"{site.url}/dataflows/{site.python(_RUNNING).split()[-1]}/"
