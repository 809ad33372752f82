"""The one line in which a query says why it fails: it may hold a value, and is told to who may read its events."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dashboard import jobs
from dashboard.approvals.selectors import live_proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.diagnosis.problems import problems
from dashboard.operations.elements import query_of
from dashboard.operations.live_reader import live_dataflow, live_estate
from dashboard.operations.live_view.chart_marks import marks_of
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.failing_queries import failures
from dashboard.operations.live_view.notable import notable_events
from dashboard.operations.live_view.recording import annotations_of_events
from dashboard.teams.permissions import Viewer, viewer_of
from dashboard.teams.services import set_secret
from scheduler.contracts.reports import Reports
from tests.dashboard.building import World, running

pytestmark = pytest.mark.django_db
VALUE = "patient 4711"
AT_MS = 1_800_000_000_000


@pytest.fixture
def failing(world: World, monkeypatch: pytest.MonkeyPatch) -> DataflowRecord:
    """A shared dataflow of City that reads with City's credential, and fails at an event."""
    set_secret(actor=world.dev, team=world.city, name="hook", value="a-value-of-some-length")
    record = running(world.carla, world.city, json.dumps({
        "name": "ward",
        "tasks": [
            {"id": "posted", "type": "http_ingest", "config": {
                "name": "ward", "token": {"secret": "hook"}, "columns": ["a:bigint"]}},
            {"id": "out", "type": "output", "config": {"name": "ward-out"}}],
        "streams": [{"from": "posted", "to": "out"}]}), world.ana)
    query = record.uses.get(task_id="out").running_task.fragment
    error = f"ValueError: no number: {VALUE!r}"
    report = {"state": "backoff", "error": error, "failures": 3, "traceback": error, "retry_at_ms": 4_000}
    reading = jobs.LiveReading(measured=True, reports=Reports.of({
        "n1": {"node": "n1", "slots": {"0": {"state": "running", "fragments": {query: report}}}}}))
    event = {"kind": "fragment_failed", "fragment": query, "node": "n1", "at_ms": AT_MS, "error": error,
             "retry_at_ms": 4_000}
    monkeypatch.setattr(jobs, "read_live", lambda *_: reading)
    monkeypatch.setattr(jobs, "notable_events", lambda: [event])
    view = view_for(viewer_of(world.root))
    DatabaseHistory().annotate(annotations_of_events([event], team_of=view.team_of_errors))
    proposal = record.proposals.get()
    proposal.progress = {"done": [], "failing": {query: {"cause": error, "since": "2026-01-01T00:00:00+00:00"}}}
    proposal.save()
    return record


def _marks(viewer: Viewer, record: DataflowRecord) -> Any:
    begin_s = AT_MS // 1000 - 1
    return marks_of(viewer, "dataflow", str(record.pk), begin_s=begin_s, end_s=begin_s + 5)


PLACES: dict[str, Callable[[Viewer, DataflowRecord], Any]] = {
    "live": lambda viewer, record: live_dataflow(viewer, record.pk),
    "estate": lambda viewer, record: live_estate(viewer),
    "failures": lambda viewer, record: failures(viewer, record.pk),
    "query": lambda viewer, record: query_of(viewer, record.uses.get(task_id="out").running_task.fragment),
    "problems": lambda viewer, record: [problems(viewer).now, problems(viewer).errors],
    "notable": lambda viewer, record: notable_events(viewer, record.pk),
    "proposal": lambda viewer, record: live_proposal(viewer, record.proposals.get().pk),
    "marks": _marks}


@pytest.mark.parametrize("place", PLACES)
def test_why_a_query_fails_that_reads_with_a_credential_is_for_its_team(
    world: World, failing: DataflowRecord, place: str
) -> None:
    shown = {name: VALUE in str(PLACES[place](viewer_of(world.users[name]), failing))
            for name in ("vera", "root", "mo", "outsider")}
    assert shown == {"vera": True, "root": True, "mo": False, "outsider": False}
