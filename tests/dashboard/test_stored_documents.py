"""Stored documents: read as they were accepted, whatever their task types have become since."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from dashboard import jobs
from dashboard.approvals.near_miss_search import near_misses_of
from dashboard.approvals.services import pause_dataflow, prepare_proposal, submit_dataflow
from dashboard.catalog.document_checks import check_document, stored_dataflow
from dashboard.catalog.models import DataflowVersion
from dashboard.plans.scheduling_problem import problem_of
from dashboard.tasks import app
from scheduler.model.documents import to_document
from scheduler.model.errors import UnknownTaskType
from scheduler.model.task_types import Parameter, TaskTypes
from tests.dashboard.building import World, approved, document, enacted, planned, running


@pytest.fixture
def tighten(monkeypatch):
    """Windows of fewer than 20 events, and averages without a reason, are refused from now on."""

    def apply() -> None:
        types_now = jobs.task_types()
        average = types_now["block_average"]
        parameters = [
            replace(parameter, minimum=20) if parameter.name == "window" else parameter
            for parameter in average.parameters]
        parameters.append(Parameter("reason", "string", "Why.", required=True))
        types = TaskTypes([*types_now.values(), replace(average, parameters=tuple(parameters))])
        monkeypatch.setattr(jobs, "task_types", lambda: types)

    return apply


@pytest.fixture
def uninstall(monkeypatch):
    def apply(name: str) -> None:
        types = TaskTypes([declared for declared in jobs.task_types().values() if declared.name != name])
        monkeypatch.setattr(jobs, "task_types", lambda: types)

    return apply


def test_a_running_dataflow_is_readable_after_a_task_type_has_tightened_its_rules(world: World, tighten):
    record = running(world.carla, world.city, document("traffic", window=10), world.ana)
    before = stored_dataflow(DataflowVersion.objects.get().document)
    tighten()
    assert {problem.code for problem in check_document(document("traffic", window=10)).problems} == {
        "out_of_range", "missing_parameter"}, "a new submission is held to the new rules"
    assert stored_dataflow(DataflowVersion.objects.get().document) == before
    assert problem_of(record).running, "it can be scheduled"


def test_a_submission_is_planned_by_the_rules_that_it_was_accepted_by(world: World, tighten):
    proposal = submit_dataflow(actor=world.carla, team=world.city, text=document("traffic", window=10))
    tighten()
    assert prepare_proposal(proposal_id=proposal.pk).status == "pending"


def test_a_task_type_that_is_no_longer_installed_is_named_by_what_needs_it(world: World, uninstall):
    proposal = submit_dataflow(actor=world.carla, team=world.city, text=document("other"))
    pending = planned(world.carla, world.city, document("traffic"))
    version = proposal.dataflow.versions.get()
    uninstall("block_average")
    with pytest.raises(UnknownTaskType) as raised:
        stored_dataflow(version.document)
    assert raised.value.facts == {"task": "average"}
    assert stored_dataflow(version.document, installed=False).task("average").type == "block_average"
    assert near_misses_of(pending) == ()
    assert prepare_proposal(proposal_id=proposal.pk).plan.error["code"] == "unknown_task_type"


def test_a_document_is_stored_and_read_without_loss(world: World):
    text = document(
        "lossless", visibility="private", description="Å, 🌊 and \"quotes\"", rates={"sense": 12.5},
        streams=[
            {"from": "sense", "to": "parse", "selectivity": 0.25}, {"from": "parse", "to": "average"},
            {"from": "average", "to": "out"}])
    submitted = check_document(text).dataflow
    planned(world.carla, world.city, text)
    stored = DataflowVersion.objects.get().document
    assert stored == json.loads(json.dumps(to_document(submitted)))
    assert stored_dataflow(stored) == submitted


def test_text_about_a_null_character_is_text(world: World):
    """Backslash, u and four zeros are six characters in YAML without quotes; a null character itself is refused."""
    text = "\n".join([
        "name: nulls", "description: strips \\u0000", "tasks:", "  - {id: s, type: urban_sensing}",
        "  - {id: o, type: output, config: {name: nulls}}", "streams: [{from: s, to: o}]"])
    planned(world.carla, world.city, text, format="yaml")
    assert stored_dataflow(DataflowVersion.objects.get().document).description == "strips \\u0000"
    for refused in ('"strips \\u0000"', '"strips \\0"'):
        problems = check_document(text.replace("strips \\u0000", refused), format="yaml").problems
        assert [(problem.code, problem.line) for problem in problems] == [("invalid_unicode", 2)]


@pytest.mark.parametrize("is_paused", [False, True])
def test_an_expression_that_is_refused_by_now_is_told_when_the_worker_starts(
    world: World, monkeypatch: pytest.MonkeyPatch, is_paused: bool
) -> None:
    monkeypatch.setattr(app.connections, "close_all", lambda: None)  # the test's own has a transaction
    text = document("traffic").replace('"type": "block_average", "config": {"window": 10}', (
        '"type": "sql", "config": {"query": "SELECT _seq AS n FROM input"}'))
    record = running(world.carla, world.city, text, world.ana)
    if is_paused:
        enacted(approved(prepare_proposal(
            proposal_id=pause_dataflow(actor=world.carla, dataflow_id=record.pk).pk), world.ana))
    with capture_logs() as logged:
        app.tell_refused_expressions()
    assert logged == []
    version = DataflowVersion.objects.get()  # as an earlier version of Weir took it in
    version.document["tasks"][2]["config"]["query"] = "SELECT _seq AS n FROM input\nWHERE '1' RLIKE 'a*a*a*a*a*a*~'"
    version.save()
    with capture_logs() as logged:
        app.tell_refused_expressions()
    [entry] = logged
    assert (entry["log_level"], entry["dataflow"], entry["task"]) == ("warning", "traffic", "average")
    assert "another version" in entry["remedy"] and entry["why"] and "\n" not in entry["why"]
