"""Rings on the site: one document for page, API and command; keys named to their own teams; hot keys; cuts by load."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from html import unescape
from io import StringIO
from types import MappingProxyType

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from dashboard import jobs, node_calls
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.diagnosis.health import health
from dashboard.operations.estate_store import readable
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.key_rings import TAKES, TaskRing, ring_of
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.services import register_node
from dashboard.pages.ring_drawing import arcs_of
from dashboard.plans.scheduling_problem import problem_of
from dashboard.plans.selectors import plan_of
from dashboard.schedules.comparison import changes
from dashboard.teams.permissions import viewer_of
from scheduler.contracts.reports import LEFT, NodeReport, QueryReport, Reports, SlotReport
from scheduler.elasticity.copied_queries import CHANGING_HANDS
from scheduler.enactment import parts_of
from scheduler.model.fragment import Fragment, node_of
from scheduler.model.key_loads import STRETCHES, FrequentKey, KeyLoads
from scheduler.model.ring import KEY_GROUPS, KeyRange, key_group
from scheduler.reuse.division import is_cut_so
from tests.dashboard.building import World, approved
from tests.dashboard.schedules import at, rescheduled
from tests.dashboard.test_keyed_schedules import keyed, mean, run  # noqa: F401 - a fixture
from tests.pages.markup import Markup, assert_sound

KEY = "m1\x1fflow"
HOT = FrequentKey(KEY, key_group(KEY), 16_000.0)


def skewed(events: float = HOT.events) -> KeyLoads:
    """So many events of one key, and 4,000 of others."""
    stretches = [4_000 / STRETCHES] * STRETCHES
    stretches[HOT.group // (KEY_GROUPS // STRETCHES)] += events
    return KeyLoads(tuple(stretches), (replace(HOT, events=events),))


@pytest.fixture
def record(keyed: World, monkeypatch: pytest.MonkeyPatch) -> DataflowRecord:  # noqa: F811
    """A running dataflow that is divided by key over two nodes, of which one has named its zone."""
    register_node(name="n1", slots=2)
    register_node(name="n2", slots=8)
    record = run(keyed, 50)
    loads = {mean(record).id: skewed()}
    monkeypatch.setattr(node_calls, "key_loads", lambda writers: {
        reader: loads[reader] for reader, queries in writers.items() if list(queries)})
    monkeypatch.setattr(node_calls, "zones", lambda: {"n2": "b"})
    return record


def reported(
    monkeypatch: pytest.MonkeyPatch, fragment: Fragment, *, full: str = "", cpu: float = 0.95,
    copies: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
    silent: str = "", states: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Every bundle of a fragment runs, or is in one of these states, with 40 kB of state each, and tells of its copies;
    its writer waits for one of them; of one node nothing is heard."""
    nodes: dict[str, dict[str, SlotReport]] = {}
    for bundle in fragment.bundles:
        node, _, index = bundle.slot.partition("/")
        nodes.setdefault(node, {})[index] = SlotReport(state="running", fragments={
            bundle.id: QueryReport(
                state=states.get(bundle.id, "running"), cpu=cpu, state_kb=40, **copies.get(bundle.id, {}))})
    nodes.setdefault("n1", {})["99"] = SlotReport(state="running", fragments={
        "writer": QueryReport(state="running", throttled_by=f"any.0@{full}" if full else None)})
    reports = Reports({
        name: NodeReport(node=name, version=10**6, at_ms=10_000, slots=slots)
        for name, slots in nodes.items() if name != silent})
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading(reports=reports))


def test_page_api_and_command_show_one_document(
    record: DataflowRecord, keyed: World, monkeypatch: pytest.MonkeyPatch, client: Client  # noqa: F811
) -> None:
    fragment = mean(record)
    reported(monkeypatch, fragment)
    ring = ring_of(viewer_of(keyed.carla), fragment.tasks[0])
    client.force_login(keyed.carla)
    answer = client.get(f"/api/estate/tasks/{ring.task}/ring").json()
    out = StringIO()
    call_command("ring", "means", "mean", "--json", "--as", keyed.carla.username, stdout=out)
    assert json.loads(out.getvalue()) == answer

    assert sum(row["groups"] for row in answer["ranges"]) == KEY_GROUPS
    assert {row["bundle"] for row in answer["ranges"]} == {bundle.id for bundle in fragment.bundles}
    assert sum(row["load"] for row in answer["ranges"]) == pytest.approx(1, abs=0.001)
    hot = next(row for row in answer["ranges"] if 0 <= HOT.group - row["first"] < row["groups"])
    assert hot["load"] > 0.8 and answer["by"] == ["sensor_id", "obs"]
    assert {row["node"]: row["zone"] for row in answer["ranges"]} == {"n1": "", "n2": "b"}
    assert {loss["node"]: loss["state_kb"] for loss in answer["losses"]} == {
        node: 40 * sum(node_of(bundle.slot) == node for bundle in fragment.bundles) for node in ("n1", "n2")}
    assert answer["survives"] == "does not survive the loss of a machine: no copies of state are asked for"
    assert answer["keys"][0]["values"] == ["m1", "flow"]
    assert all(row["lost_part"] == row["part"] for row in answer["losses"]), "nobody has copies"

    page = client.get(reverse("task_ring", args=[ring.task]))
    assert_sound(page, "ring")
    rows = Markup(page.text).by("data-range")
    assert list(rows) == [str(row["first"]) for row in answer["ranges"]]
    assert "m1, flow" in page.content.decode() and "80%" in page.content.decode()
    for path in (reverse("running_task", args=[ring.task]), reverse("dataflow_task", args=[record.pk, "mean"])):
        assert reverse("task_ring", args=[ring.task]) in client.get(path).content.decode()


def test_copies_are_shown_by_range_with_what_they_survive(
    record: DataflowRecord, keyed: World, monkeypatch: pytest.MonkeyPatch, client: Client  # noqa: F811
) -> None:
    fragment = mean(record)
    other = {"n1": "n2", "n2": "n1"}
    homes = {bundle.id: node_of(bundle.slot) for bundle in fragment.bundles}
    whole = {"survives": 1, "copies": 1, "copied_at_ms": 7_000}
    copies = {name: whole | {"held_by": (other[node],)} for name, node in homes.items()}
    holders = {name: (other[node],) for name, node in homes.items()}
    zones = {"n1": "a", "n2": "b"}
    monkeypatch.setattr(node_calls, "all_copy_holders", lambda queries, living: {
        name: holders[name] for name in queries if name in holders})
    monkeypatch.setattr(node_calls, "zones", lambda: zones)
    client.force_login(keyed.carla)
    task = fragment.tasks[0]

    def shown(silent: str = "") -> dict:
        reported(monkeypatch, fragment, copies=copies, silent=silent)
        ring = ring_of(viewer_of(keyed.carla), task)
        page, out = client.get(reverse("task_ring", args=[task])), StringIO()
        call_command("ring", "means", "mean", "--as", keyed.carla.username, stdout=out)
        assert_sound(page, "ring")
        text = unescape(page.text)
        assert f"{ring.survives}. {ring.one_more}" in text and f"{ring.survives}. {ring.one_more}" in out.getvalue()
        return {"page": text, "terminal": out.getvalue(), **client.get(f"/api/estate/tasks/{task}/ring").json()}

    answer = shown()
    assert answer["survives"] == "survives the loss of any one machine, or zone a, or zone b"
    for row in answer["ranges"]:
        node = other[row["node"]]
        assert (row["holders"], row["copy_age_ms"]) == ([{"node": node, "zone": zones[node]}], 3_000)
    assert not any(row["lost"] for row in answer["losses"])
    assert "it is 3.0 s old" in answer["page"] and "its loss takes nothing" in answer["terminal"]
    kb = 40 * len(homes) / 10  # all of the state each ten seconds
    assert answer["one_more"].startswith(f"One more copy of the state sends {kb:,.0f} kB a second at most")

    zones["n1"] = "b"  # the same rack
    assert shown()["survives"] == "survives the loss of any one machine"
    zones.clear()
    assert shown()["survives"] == "survives the loss of any one machine"

    lacking = next(name for name, node in homes.items() if node == "n1")
    copies[lacking] = {"survives": 0, "copies": 1, "not_copied": CHANGING_HANDS}  # its copy does not count now
    answer = shown()
    assert answer["survives"] == f"does not survive the loss of a machine: {CHANGING_HANDS}"
    [without] = [row for row in answer["ranges"] if not row["holders"]]
    assert without["bundle"] == lacking and CHANGING_HANDS in answer["page"]
    assert {row["node"]: row["lost"] for row in answer["losses"]} == {"n1": [without["first"]], "n2": []}
    assert f"its loss takes the state of {without['part']:.1%} of the keys" in answer["terminal"]

    copies[lacking] = whole | {"held_by": ("n2",)}
    answer = shown(silent="n1")  # what runs there is on the node of its copies alone, if n1 does not come back
    assert answer["survives"] == "does not survive the loss of a machine"
    assert {row["node"]: row["lost"] for row in answer["losses"]} == {
        "n1": [], "n2": [row["first"] for row in answer["ranges"] if row["node"] == "n1"]}


def test_a_bundle_takes_keys_until_it_has_begun_and_those_that_leave_have_left(
    keyed: World, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    """Who gives keys away and works on never leaves."""
    record = run(keyed, 30)
    approved(rescheduled(keyed, record, at(50)), keyed.ana)
    fragment = mean(record)
    givers = {bundle.id: fragment.before(bundle) for bundle in fragment.bundles if not bundle.leaving}
    leaving = {bundle.id for bundle in fragment.bundles if bundle.leaving}
    takers = {name for name, before in givers.items() if before}
    assert any(not giver.leaving for before in givers.values() for giver in before) and takers != set(givers)

    def rings(states: Mapping[str, str]) -> TaskRing:
        reported(monkeypatch, fragment, states=states)
        return ring_of(viewer_of(keyed.carla), fragment.tasks[0])

    def taking(states: Mapping[str, str]) -> set[str]:
        return {piece.bundle for piece in rings(states).ranges if piece.change == TAKES}

    left = dict.fromkeys(leaving, LEFT)
    starting = dict.fromkeys(takers, "starting")
    assert taking(starting) == takers
    lost = {loss.node: set(loss.lost) for loss in rings(starting).losses}
    for piece in rings(starting).ranges:
        holders = {node_of(giver.slot) for giver in givers[piece.bundle]} or {piece.node}
        assert {node for node in lost if piece.first in lost[node]} == holders, "who has not begun has nothing"
    assert taking(left | dict.fromkeys(takers, "waiting")) == {
        name for name in takers if any(not giver.leaving for giver in givers[name])}
    assert taking(left) == set()


def test_keys_are_named_to_their_own_teams_only(
    record: DataflowRecord, keyed: World, client: Client  # noqa: F811
) -> None:
    task = mean(record).tasks[0]
    client.force_login(keyed.mo)  # of another team, who may know of the dataflow
    answer = client.get(f"/api/estate/tasks/{task}/ring").json()
    assert [key["values"] for key in answer["keys"]] == [None] and answer["keys"][0]["share"] == 0.8
    page = client.get(reverse("task_ring", args=[task])).content.decode()
    assert "flow" not in page.partition("Frequent keys")[2].partition("Works for")[0]


def test_keys_of_what_another_teams_credential_reads_are_not_named(
    record: DataflowRecord, keyed: World, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    task = mean(record).tasks[0]
    assert [key.values for key in ring_of(viewer_of(keyed.carla), task).keys] == [["m1", "flow"]]
    monkeypatch.setattr(readable, "is_told_to_all", lambda estate, name: name != task)
    monkeypatch.setattr(readable, "is_readable", lambda viewer, name: False)
    assert [key.values for key in ring_of(viewer_of(keyed.carla), task).keys] == [None]


def test_what_is_not_divided_by_key_has_no_ring(
    record: DataflowRecord, keyed: World, client: Client  # noqa: F811
) -> None:
    client.force_login(keyed.carla)
    other = load_estate().submitted[str(record.pk)].running["parse"]
    for task in (other, "none"):
        assert client.get(f"/api/estate/tasks/{task}/ring").status_code == 404
        assert client.get(reverse("task_ring", args=[task])).status_code == 404


def test_a_key_that_alone_is_too_much_is_a_problem_that_does_not_name_it(
    record: DataflowRecord, keyed: World, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    fragment = mean(record)
    owner = fragment.ring(("k",)).owner(HOT.group)
    for full, cpu, is_hot in ((owner, 0.99, True), ("", 0.99, False), (owner, 0.5, False)):
        reported(monkeypatch, fragment, full=full, cpu=cpu)
        hot = [finding for finding in health(view_for(viewer_of(keyed.carla))) if finding.part == "key"]
        assert len(hot) == is_hot
        if is_hot:
            assert hot[0].name == owner and "about 80% of its events" in hot[0].cause and hot[0].remedy
            assert "m1" not in hot[0].cause and [user["name"] for user in hot[0].dataflows] == ["means"]
            assert any(row.hot for row in ring_of(viewer_of(keyed.carla), fragment.tasks[0]).ranges)


def test_schedules_cut_the_ring_by_load_and_leave_it_where_that_gains_nothing(
    keyed: World, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    record = run(keyed, 50)
    of = {mean(record).id: KeyLoads((90.0,) * 85 + (9.0,) * 171)}  # the first third has most
    monkeypatch.setattr(node_calls, "key_loads", lambda writers: of)
    planned = problem_of(record).schedule(("MBA", "SAM"), 50)
    ranges = [KeyRange(*key_range, part.slot) for part in parts_of(planned)["mean"] for key_range in part.key_ranges]
    shares = [of[mean(record).id].share(key_range) for key_range in ranges]
    assert shares == pytest.approx([part.weight for part in parts_of(planned)["mean"]], abs=0.01)
    assert changes(planned, {"mean": mean(record).queries}).leave == len(ranges)
    plan = plan_of(rescheduled(keyed, record, at(50)).plan)
    [after] = [fragment for fragment in plan.fragments_after.values() if fragment.divided_by_key]
    assert [key_range for bundle in after.bundles if not bundle.leaving for key_range in bundle.key_ranges] == [
        (key_range.token, key_range.size) for key_range in ranges]
    of[mean(record).id] = skewed(events=1.0)  # as good as even: nothing is gained
    same = problem_of(record).schedule(("MBA", "SAM"), 50)
    assert is_cut_so(parts_of(same)["mean"], mean(record).bundles)
    assert not changes(same, {"mean": mean(record).queries}).leave


def test_arcs_close_the_circle_and_bars_are_as_deep_as_loads(
    record: DataflowRecord, keyed: World  # noqa: F811
) -> None:
    ranges = ring_of(viewer_of(keyed.carla), mean(record).tasks[0]).ranges
    arcs = arcs_of(ranges)
    ends = [arc.arc.partition("A")[0] for arc in arcs]
    assert ends[0] == "M0.00 -96.00" and len(set(ends)) == len(arcs)
    assert {arc.colour for arc in arcs} == {0, 1}
    [whole] = arcs_of([replace(ranges[0], first=0, groups=KEY_GROUPS, part=1.0)])
    assert whole.arc.count("M") == 2, "a whole circle is two halves: an arc that ends where it begins is none"
