"""What is told of a query that fails: in which task, by its name, its traceback, and that it can be tried again."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis
from django.test import Client

from dashboard import jobs
from dashboard.approvals.selectors import live_proposal
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.diagnosis.problems import problems
from dashboard.operations.elements import query_of
from dashboard.operations.estate_store import readable
from dashboard.operations.live_reader import live_dataflow, live_estate
from dashboard.operations.live_view.failing_queries import failures
from dashboard.operations.services import try_again
from dashboard.teams.permissions import viewer_of
from scheduler.contracts.reports import Reports
from scheduler.model.errors import NothingToChange, PermissionDenied
from tests.dashboard.building import World, document, running
from tests.pages.markup import Markup
from workers.engine.channels import keys

TRACEBACK = "Traceback (most recent call last):\n  File \"parse.py\", line 40\nValueError: no number: 'abc'"


class Failing:
    """A dataflow whose query fails in its task ``parse``, as its node reports."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.record: DataflowRecord = running(world.carla, world.city, document("traffic"), world.ana)
        use = self.record.uses.get(task_id="parse")
        self.task, self.query = use.running_task_id, use.running_task.fragment
        self._monkeypatch = monkeypatch
        self.report()

    def report(self, **changes: Any) -> None:
        query = {
            "state": "backoff", "error": f"task {self.task}: ValueError: no number: 'abc'", "failures": 3,
            "failed_tasks": [self.task], "traceback": TRACEBACK, "retry_at_ms": 4_000} | changes
        slot = {"state": "running", "fragments": {self.query: query}}
        reading = jobs.LiveReading(measured=True, reports=Reports.of({"n1": {"node": "n1", "slots": {"0": slot}}}))
        self._monkeypatch.setattr(jobs, "read_live", lambda *_: reading)


@pytest.fixture
def failing(world: World, monkeypatch: pytest.MonkeyPatch) -> Failing:
    return Failing(world, monkeypatch)


def test_an_error_names_its_task_and_only_that_is_marked(world: World, failing: Failing) -> None:
    live = live_dataflow(viewer_of(world.vera), failing.record.pk)
    assert live["tasks"]["parse"]["error"] == "task parse: ValueError: no number: 'abc'"
    assert [name for name, task in live["tasks"].items() if task["failed"]] == ["parse"]
    assert failing.task not in json.dumps([live["health"], live_estate(viewer_of(world.vera))["health"]])


def test_where_the_task_is_not_known_all_of_the_query_are_marked(world: World, failing: Failing) -> None:
    failing.report(failed_tasks=[])
    live = live_dataflow(viewer_of(world.vera), failing.record.pk)
    assert all(task["failed"] for task in live["tasks"].values() if task["fragment"] == failing.query)


def test_the_traceback_is_for_the_team(world: World, failing: Failing) -> None:
    [failure] = failures(viewer_of(world.vera), failing.record.pk)
    assert failure.traceback == TRACEBACK and failure.failed == ["parse"]
    [failure] = failures(viewer_of(world.mo), failing.record.pk)
    assert failure.traceback is None and failure.error


@pytest.mark.parametrize("place", ["failures", "query", "problems"])
@pytest.mark.parametrize("credential_of", ["none", "another team"])
def test_the_traceback_is_not_for_who_may_not_read_what_leaves_one_of_its_tasks(
    world: World, failing: Failing, monkeypatch: pytest.MonkeyPatch, place: str, credential_of: str
) -> None:
    viewer = viewer_of(world.vera)
    if credential_of != "none":
        last = failing.record.uses.get(task_id="out").running_task_id
        monkeypatch.setattr(readable, "is_told_to_all", lambda estate, task: task != last)
        monkeypatch.setattr(readable, "is_readable", lambda viewer, task: False)
    shown = {
        "failures": lambda: failures(viewer, failing.record.pk)[0].traceback,
        "query": lambda: query_of(viewer, failing.query).traceback,
        "problems": lambda: next(row.traceback for row in problems(viewer).now if row.subject == failing.query)}
    assert bool(shown[place]()) is (credential_of == "none")


def test_one_that_was_given_up_says_so_and_is_tried_again(
    world: World, failing: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[str] = []
    monkeypatch.setattr(jobs, "try_again", requests.extend)
    failing.report(gave_up=True, retry_at_ms=None, failures=9)
    assert live_dataflow(viewer_of(world.vera), failing.record.pk)["totals"]["state"] == "gave_up"
    client = Client()
    client.force_login(world.carla, backend="dashboard.teams.logins.ThrottledBackend")
    page = Markup(client.get(f"/dataflows/{failing.record.pk}/").text)
    assert page.one("data-failing").attributes["data-gave-up"] == "yes"
    address = f"/dataflows/{failing.record.pk}/retry"
    assert page.submits(address)
    assert Markup(client.post(address, follow=True).text).flashes == ["try-again"]
    assert requests == [failing.query]
    assert AuditEntry.objects.filter(verb="dataflow.try_again").count() == 1


def test_only_engineers_try_again_and_only_what_fails(world: World, failing: Failing) -> None:
    with pytest.raises(PermissionDenied):
        try_again(actor=world.vera, dataflow_id=failing.record.pk)
    failing.report(state="running", error=None)
    with pytest.raises(NothingToChange):
        try_again(actor=world.carla, dataflow_id=failing.record.pk)


@pytest.mark.broker
def test_the_slot_finds_who_is_to_be_tried_again(settings: Any, broker: redis.Redis, broker_url: str) -> None:
    settings.REDIS_URL = broker_url
    jobs.try_again(["f1-0"])
    assert broker.getdel(keys.try_again("f1-0"))


def test_a_proposal_names_the_tasks_of_its_failing_queries(world: World, failing: Failing) -> None:
    proposal = failing.record.proposals.get()
    proposal.progress = {"done": [], "failing": {
        failing.query: {"cause": f"task {failing.task}: no number", "since": "2026-01-01T00:00:00+00:00"}}}
    proposal.save()
    live = live_proposal(viewer_of(world.vera), proposal.pk)
    assert live["failing"][failing.query]["cause"] == "task parse: no number"
