"""Limits along a part of a dataflow, from how they are written to what is planned, measured and watched of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from dashboard import jobs
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.services import choose_latency
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.latency_control.latency_problem import events_per_s, latency_ms
from dashboard.operations.latency_control.latency_view import latency_of
from dashboard.operations.live_view.estate_view import View
from dashboard.operations.models import FragmentRow, LatencyStatus
from dashboard.teams.permissions import viewer_of
from scheduler.contracts.qos import QosSetup
from scheduler.contracts.reports import Reports
from scheduler.controllers.evidence.limited import LimitSeries, measured_by
from scheduler.history.series import QUERY, STREAM, TASK, Series
from scheduler.latency.pacing import LimitOnWay, Queries, expected_at
from scheduler.latency.ways import way_of
from scheduler.model.latency_limits import LatencyLimit
from tests.dashboard.building import World, document, running
from tests.dashboard.played import Played
from tests.scheduler.latency.lines import FLOW, LINES, Line, costs_of, lasts_s, line_of, waits_s
from workers.engine.observed import Flows, StreamFlow, TaskFlow

RATE = 10.0


def view_of(line: Line, queries: Queries) -> View:
    """A view in which all is measured as the model has it, and what a source beside it brings is 5 s old."""
    estate, intervals_s = line.estate, queries.before_s
    ages_ms, tasks, streams = {"r-beside": 5_000.0}, {}, {}
    for name, fragment in estate.fragments.items():
        parents, batch_s = estate.tasks[fragment.tasks[0]].parents, lasts_s(queries, name, intervals_s)
        if name != "beside":
            taken_ms = 500 * intervals_s[name]
            if parents:
                wait_ms = 1000 * waits_s(queries, name, intervals_s)
                streams |= {(parent, fragment.tasks[0]): StreamFlow(
                    RATE, channel_mean_ms=wait_ms, wait_mean_ms=wait_ms) for parent in parents}
                taken_ms = sum(ages_ms[parent] for parent in parents) / len(parents) + wait_ms
            ages_ms |= dict.fromkeys(fragment.tasks, taken_ms + 1000 * batch_s)
    for task, age_ms in ages_ms.items():
        tasks[task] = TaskFlow(RATE, 0, age_ms, 2 * age_ms, age_ms, None, age_ms)
    reports = Reports.of({"n1": {"node": "n1", "slots": {"0": {"state": "running", "fragments": {
        name: {"state": "running", "trigger_ms": round(1000 * seconds)} for name, seconds in intervals_s.items()}}}}})
    reading = jobs.LiveReading(measured=True, flows=Flows(tasks, streams), reports=reports)
    return View(estate, lambda: reading, {}, frozenset())


@given(LINES, st.data())
def test_what_is_measured_of_a_part_is_what_is_planned(line: Line, data: st.DataObject) -> None:
    costs = costs_of(line, data)
    queries = Queries(costs, line.reads, before_s={
        query: data.draw(st.sampled_from([0.1, 0.4, 1.0, 3.0])) for query in costs})
    limit = line.limit(*data.draw(line.slices()))
    want = LimitOnWay("w", way_of(line.estate, FLOW, limit), 1.0)

    view = view_of(line, queries)
    measured_ms = latency_ms(view, FLOW, limit)

    assert events_per_s(view, FLOW, limit) == RATE
    expected = expected_at(queries, [want], queries.before_s)["w"]
    assert measured_ms == pytest.approx(1000 * expected.latency_s)


class History:
    """What was kept of a view, at one moment."""

    times_s = np.zeros(1)

    def __init__(self, view: View) -> None:
        flows = view.reading.flows
        self._values = {
            **{Series(TASK, task, metric): getattr(flow, metric) for task, flow in flows.tasks.items()
               for metric in ("latency_mean_ms", "latency_p99_ms")},
            **{Series(STREAM, ">".join(ends), "channel_mean_ms"): flow.channel_mean_ms
               for ends, flow in flows.streams.items()},
            **{Series(QUERY, name, "trigger_ms"): report.trigger_ms
               for name, report in view.reading.reports.queries()}}

    def most(self, series: Sequence[Series]) -> np.ndarray:
        return np.array([max(self._values[line] for line in series)])

    def total(self, series: Sequence[Series]) -> np.ndarray:
        return np.array([sum(self._values[line] for line in series)])


@given(LINES.filter(lambda line: "beside" not in line.estate.fragments), st.data())
def test_what_a_decision_notes_of_a_part_measures_the_same_over_history(line: Line, data: st.DataObject) -> None:
    queries = Queries(costs_of(line), line.reads, before_s={
        query: data.draw(st.sampled_from([0.1, 0.4, 1.0, 3.0])) for query in line.estate.fragments})
    limit = line.limit(*data.draw(line.slices()), percentile=data.draw(st.sampled_from([None, 99])))
    view = view_of(line, queries)

    noted = measured_by(line.estate, FLOW, limit)

    limited = LimitSeries.of(noted, line.estate)
    assert limited.latency_ms(History(view))[0] == pytest.approx(latency_ms(view, FLOW, limit))
    assert set(limited.all) <= History(view)._values.keys()


def test_a_percentile_of_a_part_is_as_far_from_its_mean_as_at_its_end() -> None:
    line = line_of(["a", "b"])
    queries = Queries(costs_of(line), line.reads, before_s={"f0": 1.0, "f1": 3.0})
    view = view_of(line, queries)

    for along in (("a", "b"), ("b",), ("a -> b", "b"), ("a -> b",)):
        mean_ms = latency_ms(view, FLOW, LatencyLimit(1.0, along))
        assert latency_ms(view, FLOW, LatencyLimit(1.0, along, percentile=99.0)) == pytest.approx(2 * mean_ms)


def test_where_no_event_has_come_nothing_is_measured() -> None:
    line = line_of(["a", "b"])
    view = View(line.estate, lambda: jobs.LiveReading(measured=True), {}, frozenset())

    for along in (("a", "b"), ("b",), ("a -> b", "b"), ("a -> b",)):
        assert latency_ms(view, FLOW, LatencyLimit(1.0, along)) is None


@pytest.fixture
def apart(world: World) -> DataflowRecord:
    """A dataflow of four queries without a limit on the whole."""
    tasks = [
        {"id": "sense", "type": "urban_sensing", "chain": "never"},
        {"id": "parse", "type": "senml_parse", "chain": "never"},
        {"id": "average", "type": "block_average", "config": {"window": 10}, "chain": "never"},
        {"id": "out", "type": "output", "config": {"name": "apart-out"}}]
    return running(world.carla, world.city, document("apart", tasks=tasks, latency="none"), world.ana)


def homes_of(record: DataflowRecord) -> dict[str, str]:
    estate = load_estate()
    return {task: estate.places[running_task][0]
            for task, running_task in estate.submitted[str(record.pk)].running.items()}


@pytest.mark.parametrize(("along", "quick"), [
    ("[parse, average]", set()),
    # tests/scheduler/latency/test_real_time.py and test_setting_up.py have parts that begin or end with a stream.
    pytest.param("[sense -> parse, parse]", set(), marks=pytest.mark.long),
    pytest.param("[sense, sense -> parse]", {"sense", "parse"}, marks=pytest.mark.long),
    ("[sense, parse]", {"sense", "parse"})])
def test_only_what_waits_on_a_part_gets_batches_more_often(
    world: World, played: Played, apart: DataflowRecord, client: Client, along: str, quick: set[str]
) -> None:
    client.force_login(world.carla)
    client.post(f"/dataflows/{apart.pk}/latency", {"latency": f"{{limit: 1 s, along: {along}}}"})

    played.run(150)

    [limit] = latency_of(viewer_of(world.carla), apart.pk)["limits"]
    assert limit["state"] == "met"
    assert limit["along"] == along.strip("[]").split(", ")
    paces = dict(FragmentRow.objects.values_list("pk", "trigger_ms"))
    assert {task for task, query in homes_of(apart).items() if paces[query] < 5_000} == quick
    page = client.get(f"/dataflows/{apart.pk}", follow=True).content.decode()
    assert " to ".join((limit["along"][0], limit["along"][-1])).replace(">", "&gt;") in page


def test_nodes_are_told_with_which_streams_a_limit_begins_and_ends(
    world: World, played: Played, apart: DataflowRecord, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[dict[str, QosSetup]] = []
    monkeypatch.setattr(
        jobs, "publish_qos", lambda setups, at_ms: published.append({setup.node: setup for setup in setups}))
    settings.PACING = "steps"
    choose_latency(actor=world.carla, dataflow_id=apart.pk, limits=(
        LatencyLimit(1.0, ("sense -> parse", "parse", "parse -> average")), LatencyLimit(2.0, ("sense",))))

    played.run(20)

    home = homes_of(apart)
    long, short = sorted(published[-1]["n1"].shares, key=lambda share: -len(share.path))
    assert long.path == (home["sense"], home["parse"], home["average"])
    assert (long.counts_first, long.counts_last, long.waits) == (False, False, False)
    assert (short.path, short.counts_first, short.counts_last, short.waits) == ((home["sense"],), True, True, True)
    assert LatencyStatus.objects.filter(dataflow=apart).count() == 2


@pytest.mark.parametrize(("along", "message"), [
    ("[sense -> average, average]", "No stream goes from sense to average."),
    ("[parse -> sense]", "No stream goes from parse to sense."),
    ("[sense -> prase]", "names task prase, which does not exist")])
def test_what_is_no_path_is_refused_where_it_is_written(
    world: World, apart: DataflowRecord, client: Client, along: str, message: str
) -> None:
    client.force_login(world.carla)

    answer = client.post(
        f"/dataflows/{apart.pk}/latency", {"latency": f"{{limit: 1 s, along: {along}}}"}, follow=True)

    assert message in " ".join(map(str, answer.context["messages"]))
    assert DataflowRecord.objects.get(pk=apart.pk).latency_chosen is None
