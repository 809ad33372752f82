"""Who may choose a limit, which ones there are, and what is told of one that is out of reach."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import change_dataflow, prepare_proposal
from dashboard.catalog.document_checks import InvalidLatency, freshness_of
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.services import choose_latency
from dashboard.controllers.latency_told import latency_told
from dashboard.explorer.preview import preview_submission
from dashboard.operations.models import Use
from dashboard.plans.latency_remedies import cpu_in_words
from dashboard.plans.selectors import plan_of
from dashboard.teams.permissions import viewer_of
from dashboard.teams.services import InvalidValue, set_freshness
from scheduler.latency.limit_points import metric_of
from scheduler.model.errors import NotFound, PermissionDenied
from scheduler.model.latency_limits import LatencyLimit, from_json
from tests.cases import each
from tests.dashboard.building import World, approved, document, enacted, planned, running
from tests.dashboard.played import RATE, Played
from workers.engine.observed import TaskFlow


def test_what_is_out_of_reach_is_told_before_anything_runs(world: World) -> None:
    client = Client()
    client.force_login(world.carla)
    text = document("hasty", latency="30 ms")
    proposal = planned(world.carla, world.city, text)

    assert "out of reach" in client.get(f"/proposals/{proposal.pk}/").content.decode()
    shown = preview_submission(viewer_of(world.carla), team=world.city, text=text)
    assert "out of reach" in " ".join(shown.notes)
    assert not preview_submission(viewer_of(world.carla), team=world.city, text=document("calm")).notes


def test_what_rests_on_open_batches_is_told_so_and_is_not_out_of_reach(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played(monkeypatch, refusal="")
    record = running(world.carla, world.city, document("calm"), world.ana)
    played.run(10)
    text = document("hasty", window=20, latency="40 ms")

    (note,) = plan_of(planned(world.carla, world.city, text).plan).notes
    assert "rests on open batches" in note
    assert note in preview_submission(viewer_of(world.carla), team=world.city, text=text).notes
    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(LatencyLimit(0.04),))
    (remark,) = latency_told(viewer_of(world.carla), record.pk)["remarks"]
    assert "rests on open batches" in remark
    Use.objects.filter(dataflow=record).update(scheduled=True)
    (remark,) = latency_told(viewer_of(world.carla), record.pk)["remarks"]
    assert "out of reach" in remark, "queries of a schedule have micro-batches"


def test_what_is_out_of_reach_is_told_of_another_version_too(world: World) -> None:
    record = running(world.carla, world.city, document("calm"), world.ana)
    text = document("calm", window=20, latency="30 ms")

    shown = preview_submission(viewer_of(world.carla), team=world.city, text=text, changed=record)
    change = change_dataflow(actor=world.carla, dataflow_id=record.pk, text=text)
    proposal = prepare_proposal(proposal_id=change.pk)

    (remark,) = [note for note in shown.notes if "out of reach" in note]
    assert remark in plan_of(proposal.plan).notes


@each("limit, state, words", [
    ("30 ms", "running", "out of reach"), ("2 s", "running", "Batches follow"), ("2 s", "paused", "It counts while")])
def test_who_chooses_a_limit_is_told_what_follows(world: World, limit: str, state: str, words: str) -> None:
    record = running(world.carla, world.city, document("calm"), world.ana)
    DataflowRecord.objects.filter(pk=record.pk).update(status=state)
    client = Client()
    client.force_login(world.carla)

    answer = client.post(reverse("dataflow_latency", args=[record.pk]), {"latency": limit}, follow=True)
    (message,) = answer.context["messages"]

    assert words in str(message)
    assert ("follow" in str(message)) == (words == "Batches follow")
    remarks = latency_told(viewer_of(world.carla), record.pk)["remarks"]
    assert " ".join(remarks) in str(message)
    assert bool(remarks) == (words == "out of reach")


def test_who_may_choose(world: World) -> None:
    record = running(world.carla, world.city, document("ours", visibility="private"), world.ana)

    with pytest.raises(NotFound):
        choose_latency(actor=world.mo, dataflow_id=record.pk, limits=())
    with pytest.raises(PermissionDenied):
        choose_latency(actor=world.vera, dataflow_id=record.pk, limits=())
    with pytest.raises(PermissionDenied):
        set_freshness(actor=world.ana, team=world.city, limit_s=1.0)
    with pytest.raises(InvalidValue, match="no task"):
        choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(LatencyLimit(1.0, along=("sense", "gone")),))
    with pytest.raises(InvalidValue, match="No stream"):
        choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(LatencyLimit(1.0, along=("sense", "out")),))
    with pytest.raises(InvalidValue, match="from 0"):
        set_freshness(actor=world.dev, team=world.city, limit_s=0.001)


@pytest.mark.parametrize(("written", "freshness_s"), [("2 s", 2.0), ("{limit: 2 s}", 2.0), ("none", None), ("", None)])
def test_a_freshness_is_a_time_or_none(written: str, freshness_s: float | None) -> None:
    assert freshness_of(written) == freshness_s


@pytest.mark.parametrize("written", ["{limit: 2 s, percentile: 99}", "{limit: 2 s, over: 5 min}", "[2 s, 3 s]"])
def test_a_freshness_that_says_more_than_a_time_is_refused(written: str) -> None:
    with pytest.raises(InvalidLatency, match="one time") as caught:
        freshness_of(written)

    assert "400 ms" in caught.value.remedy


@pytest.mark.parametrize(("percentile", "metric"), [
    (None, "latency_mean_ms"), (50, "latency_p50_ms"), (95, "latency_p95_ms"), (99, "latency_p99_ms"),
    (75, "latency_p95_ms"), (99.9, "latency_p99_ms")])  # the last two are of before only measured ones were accepted
def test_a_limit_is_measured_by_its_own_percentile(percentile: float | None, metric: str) -> None:
    assert metric_of(LatencyLimit(1.0, percentile=percentile)) == metric
    assert hasattr(TaskFlow(RATE, 0, None, None, None, None, None), metric)


@pytest.mark.parametrize(("cores", "words"), [
    (0.1234, "0.12 cores more (+0.06 EUR an hour)"), (-0.02, "0.02 cores less (-0.01 EUR an hour)"),
    (6.5e-05, "as much CPU as now"), (-0.0004, "as much CPU as now")])
def test_cpu_that_hardly_differs_is_told_so(cores: float, words: str) -> None:
    assert cpu_in_words(cores, round(cores / 2, 2), "EUR") == words


def next_version(world: World, record: DataflowRecord, text: str) -> Proposal:
    return prepare_proposal(proposal_id=change_dataflow(actor=world.carla, dataflow_id=record.pk, text=text).pk)


def test_a_chosen_limit_goes_on_with_the_next_version_and_ends_where_that_asks_for_another(world: World) -> None:
    record = running(world.carla, world.city, document("traffic", latency="4 s"), world.ana)
    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(LatencyLimit(2.0),))

    same = next_version(world, record, document("traffic", window=20, latency="4 s"))
    assert not [note for note in plan_of(same.plan).notes if "ends with this version" in note]
    enacted(approved(same, world.ana))
    record.refresh_from_db()
    assert (record.version, record.latency_limits) == (2, (LatencyLimit(2.0),))

    text = document("traffic", window=20, latency="3 s")
    preview = preview_submission(viewer_of(world.carla), text=text, team=world.city, changed=record)
    other = next_version(world, record, text)
    for notes in (preview.notes, plan_of(other.plan).notes):
        (note,) = [note for note in notes if "ends with this version" in note]
        assert "mean of at most 2 s" in note and "mean of at most 3 s" in note
    enacted(approved(other, world.ana))
    record.refresh_from_db()
    assert (record.version, record.latency_chosen, record.latency_limits) == (3, None, (LatencyLimit(3.0),))


def test_a_chosen_limit_along_a_part_ends_with_the_version_that_lacks_it(world: World) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(LatencyLimit(2.0, along=("sense", "parse")),))
    record.refresh_from_db()
    whole = json.loads(document("traffic"))
    assert from_json(record.chosen_after(whole)) == record.latency_limits
    shorter = whole | {
        "tasks": [task for task in whole["tasks"] if task["id"] in ("sense", "out")],
        "streams": [{"from": "sense", "to": "out"}]}
    assert record.chosen_after(shorter) is None
