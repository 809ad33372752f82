"""Simulations as jobs: asked for, worked off part by part, cancelled, bounded, forgotten; and who reads what."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from dashboard.approvals.replays import in_steps
from dashboard.approvals.services import cancel_proposal
from dashboard.commands.management.commands import simulate
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.pages.templatetags.weir import steps_below
from dashboard.simulations import selectors, services, simulation_driver
from dashboard.simulations.lifecycle import CANCELLED, DONE, FAILED, QUEUED
from dashboard.simulations.models import SimulationRun
from dashboard.simulations.services import InvalidSimulation, TooManySimulations
from dashboard.simulations.simulation_driver import advance_simulations, forget_simulations
from dashboard.simulations.simulation_inputs import SimulationInputs, inputs_of
from dashboard.tasks import simulating
from dashboard.teams.permissions import viewer_of
from scheduler.adaptation.side_by_side import STEP_S
from scheduler.controllers.controller_registry import CONTROLLERS
from scheduler.history.series import NODE, Series
from scheduler.model.bounds import SIMULATED_TASKS
from scheduler.model.errors import InvalidTransition, NotFound, NothingToChange, PermissionDenied
from tests.dashboard.building import World, document, planned, running
from tests.dashboard.controlling import measured

pytestmark = pytest.mark.django_db


def recorded(world: World, *, visibility: str = "shared", rate_per_s: float = 200.0):
    """A dataflow with a limit that has run for an hour at a rate."""
    record = running(world.carla, world.city, document("traffic", latency="400 ms", visibility=visibility), world.ana)
    estate, now = load_estate(), timezone.now()
    measured(now - timedelta(hours=1), now, dataflow=str(record.pk), queries=list(estate.fragments),
             tasks=list(estate.tasks), cores=0.1, rate_per_s=rate_per_s)
    return record


def worked_off() -> None:
    """Let a worker come until nothing is left."""
    for _ in range(50):
        if not simulation_driver.is_any_open():
            return
        advance_simulations(at=timezone.now(), monotonic_s=lambda: 0.0)
    raise AssertionError("it never ends")


def ask(world: World, record, **options):
    """A short simulation."""
    return services.start_side_by_side(actor=world.carla, dataflow_id=record.pk, **(
        {"algorithms": ("CE", "local"), "hours": 1, "times": 1000.0} | options))


def test_algorithms_are_played_with_what_was_measured(world: World) -> None:
    record = recorded(world)
    before = load_estate()
    run = ask(world, record)
    assert (run.status, run.parts) == (QUEUED, 2)
    worked_off()
    run.refresh_from_db()
    assert (run.status, run.progress, [result["name"] for result in run.results]) == (DONE, 1.0, ["CE", "local"])
    for result in run.results:
        assert len(result["profits"]) == 3600 / STEP_S and 0 < result["outcome"]["throughput"] <= 1
        assert result["outcome"]["cost"] > 0
    assert run.results[1]["forecast"], "who looks ahead says how wrong forecasts were"
    assert load_estate() == before, "nothing is changed"


def test_what_is_played_is_the_dataflow_and_its_rates(world: World) -> None:
    record = recorded(world, rate_per_s=120.0)
    inputs = inputs_of(record, at=timezone.now())
    submitted = load_estate().submitted[str(record.pk)]
    assert set(inputs.dataflow.tasks) == set(submitted.running)
    for source in inputs.dataflow.sources:
        assert 2 <= len(inputs.recorded_per_s[source]) <= 13
        assert inputs.recorded_per_s[source] == pytest.approx([120.0] * len(inputs.recorded_per_s[source]), rel=0.01)
    assert SimulationInputs.of(json.loads(json.dumps(inputs.as_json()))) == inputs
    with pytest.raises(NothingToChange, match="does not run"):
        inputs_of(planned(world.mo, world.mobility, document("jams", window=20)).dataflow, at=timezone.now())


def test_machines_can_be_as_quick_as_nodes_were_where_that_is_recorded(world: World) -> None:
    record, client, history = recorded(world), as_person(world, "carla"), DatabaseHistory()
    page = f"/dataflows/{record.pk}/simulate"
    assert 'data-note="no-speeds"' in client.get(page).content.decode()
    with pytest.raises(NothingToChange, match="No speed"):
        ask(world, record, machines="recorded")
    now_s = int(timezone.now().timestamp())
    for at_s in range(now_s - 7200, now_s - 6600, 10):  # before the hour of rates: a block has one writer
        history.append(at_s, {Series(NODE, "n1", "core_speed"): 0.75})
    history.flush()
    assert 'data-note="no-speeds"' not in client.get(page).content.decode()
    client.post(f"{page}/start", {"algorithms": ["CE"], "times": "1000", "hours": "1", "machines": "recorded"})
    worked_off()
    run = SimulationRun.objects.get()
    assert run.status == DONE and run.asked["machines"] == "recorded" and set(run.asked["inputs"]["speeds"]) == {"n1"}
    assert run.asked["inputs"]["speeds"]["n1"] == pytest.approx([0.75] * len(run.asked["inputs"]["speeds"]["n1"]))
    # One that an earlier version was asked for, and that waits still.
    before = {name: value for name, value in run.asked.items() if name not in ("machines", "inputs", "forecasts")}
    SimulationRun.objects.update(status="queued", results=[], asked=before | {"varies": True, "recorded_speeds": True})
    worked_off()
    run.refresh_from_db()
    assert run.status == DONE and run.asked["machines"] == "recorded"


def test_the_command_waits_for_the_worker_and_prints_what_came(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(world)
    monkeypatch.setattr(simulate.time, "sleep", lambda _: worked_off())
    output = StringIO()
    options = {"algorithms": ["CE", "local"], "hours": 1, "times": 1000.0, "username": "carla", "stdout": output}
    call_command("simulate", "traffic", machines="steady", **options)
    names = [line.split()[0] for line in output.getvalue().splitlines()[1:]]
    assert names == ["CE", "local"] and SimulationRun.objects.get().asked["machines"] == "steady"
    with pytest.raises(CommandError, match="No speed of any node"):
        call_command("simulate", "traffic", machines="recorded", **options)


def test_recorded_rates_are_played_against_a_proposal(world: World) -> None:
    record = recorded(world)
    proposal = planned(world.mo, world.mobility, document("jams", window=20))
    run = services.start_replay(actor=world.mo, proposal_id=proposal.pk, hours=1)
    worked_off()
    run.refresh_from_db()
    assert run.status == DONE, run.reason
    now, then = selectors.sides_of(viewer_of(world.mo), run)
    assert then.core_hours > now.core_hours > 0 and then.cost > now.cost
    assert [(limit.name, limit.limit_s) for limit in now.limits] == [("traffic", 0.4)]
    assert 0 <= now.limits[0].missed <= 1 and now.limits[0].dataflow == str(record.pk)
    assert len(now.cores) == 6, "one figure for each ten minutes"
    page = as_person(world, "mo").get(f"/proposals/{proposal.pk}/replay").content.decode()
    assert all(controller.title in page for controller in CONTROLLERS.values()), "it says who is played"


def test_a_week_is_played_day_by_day(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(world)
    proposal, played = planned(world.mo, world.mobility, document("jams", window=20)), []

    def part(*, begin, end, step_s, generation, proposal, on_step):
        assert step_s == 300
        played.append((begin, end, proposal is not None))
        return SimpleNamespace()

    monkeypatch.setattr(simulation_driver, "replayed_part", part)
    monkeypatch.setattr(simulation_driver, "_figures", lambda played: {})
    services.start_replay(actor=world.mo, proposal_id=proposal.pk, hours=60)
    worked_off()
    assert [with_plan for _, _, with_plan in played] == [False] * 3 + [True] * 3
    for first in (0, 3):
        lengths = [end - begin for begin, end, _ in played[first:first + 3]]
        assert lengths == [timedelta(hours=hours) for hours in (24, 24, 12)]
        assert played[first][1] == played[first + 1][0]


def test_minutes_become_steps() -> None:
    minutes = np.array([1.0, 2.0, 3.0, 4.0, 9.0])
    assert in_steps(minutes, 30.0).tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 9, 9]
    assert in_steps(minutes, 60.0).tolist() == minutes.tolist()
    assert in_steps(minutes, 120.0).tolist() == [1.5, 3.5], "what is no whole step is left out"


def test_a_replay_of_an_estate_that_has_changed_says_so(world: World) -> None:
    recorded(world)
    proposal = planned(world.mo, world.mobility, document("jams", window=20))
    run = services.start_replay(actor=world.mo, proposal_id=proposal.pk, hours=1)
    SimulationRun.objects.filter(pk=run.pk).update(asked=run.asked | {"generation": 0})
    worked_off()
    run.refresh_from_db()
    assert run.status == FAILED and "The estate has changed" in run.reason


def test_only_a_proposal_that_waits_is_replayed(world: World) -> None:
    recorded(world)
    proposal = planned(world.mo, world.mobility, document("jams", window=20))
    cancel_proposal(actor=world.mo, proposal_id=proposal.pk)
    with pytest.raises(NothingToChange, match="is cancelled"):
        services.start_replay(actor=world.mo, proposal_id=proposal.pk, hours=1)


def test_limits_of_what_the_reader_may_not_know_are_not_told(world: World) -> None:
    recorded(world, visibility="private")
    proposal = planned(world.mo, world.mobility, document("jams", window=20))
    run = services.start_replay(actor=world.mo, proposal_id=proposal.pk, hours=1)
    worked_off()
    run.refresh_from_db()
    seen = {who: [limit.name for limit in selectors.sides_of(viewer_of(world.users[who]), run)[0].limits]
            for who in ("mo", "carla")}
    assert seen == {"mo": [], "carla": ["traffic"]}


def test_who_starts_may_cancel_and_what_is_over_may_not(world: World) -> None:
    run = ask(world, recorded(world))
    with pytest.raises(PermissionDenied):
        services.cancel_simulation(actor=world.mo, run_id=run.pk)
    services.cancel_simulation(actor=world.carla, run_id=run.pk)
    assert not simulation_driver.is_any_open() and advance_simulations(at=timezone.now()) == 0
    with pytest.raises(InvalidTransition):
        services.cancel_simulation(actor=world.root, run_id=run.pk)


def test_what_is_cancelled_while_it_is_played_ends_and_stores_nothing_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ask(world, recorded(world), algorithms=("CE",))
    real = simulation_driver.simulated

    def cancelled_meanwhile(*given, **named):
        services.cancel_simulation(actor=world.carla, run_id=run.pk)
        return real(*given, **named)

    monkeypatch.setattr(simulation_driver, "simulated", cancelled_meanwhile)
    moments = iter(range(10**6))
    advance_simulations(at=timezone.now(), monotonic_s=lambda: 5.0 * (next(moments) > 0))  # a second and more passes
    run.refresh_from_db()
    assert (run.status, run.results) == (CANCELLED, [])


def test_a_replay_that_is_cancelled_while_it_is_played_ends(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(world)
    proposal = planned(world.mo, world.mobility, document("jams", window=20))
    run = services.start_replay(actor=world.mo, proposal_id=proposal.pk, hours=1)
    real = simulation_driver.replayed_part

    def cancelled_meanwhile(**named):
        services.cancel_simulation(actor=world.mo, run_id=run.pk)
        return real(**named)

    monkeypatch.setattr(simulation_driver, "replayed_part", cancelled_meanwhile)
    moments = iter(range(10**6))
    advance_simulations(at=timezone.now(), monotonic_s=lambda: 5.0 * (next(moments) > 2))
    run.refresh_from_db()
    assert (run.status, run.results) == (CANCELLED, [])


def test_a_thread_that_still_plays_keeps_others_from_playing_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    came = []

    def asked_meanwhile(*, at: object) -> int:  # as by another thread, when the turn in the broker has lapsed
        came.append(simulating.advance_simulations())
        return 1

    monkeypatch.setattr(simulating.jobs, "hold_turn", lambda *_, **__: True)
    monkeypatch.setattr(simulating.jobs, "give_turn_back", lambda *_: None)
    monkeypatch.setattr(simulating.simulation_driver, "advance_simulations", asked_meanwhile)
    assert [simulating.advance_simulations(), simulating.advance_simulations()] == [1, 1]
    assert came == [0, 0]


def test_a_dataflow_of_more_tasks_than_algorithms_are_played_with_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = recorded(world)
    monkeypatch.setattr(services, "SIMULATED_TASKS", replace(SIMULATED_TASKS, most=4))
    assert ask(world, record).status == QUEUED
    monkeypatch.setattr(services, "SIMULATED_TASKS", replace(SIMULATED_TASKS, most=3))
    with pytest.raises(InvalidSimulation, match="has 4 tasks"):
        ask(world, record)


def test_a_part_that_takes_too_long_or_fails_ends_the_simulation_and_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = recorded(world)
    proposal = planned(world.mo, world.mobility, document("jams", window=20))
    slow = ask(world, record, algorithms=("CE",))
    slow_replay = services.start_replay(actor=world.mo, proposal_id=proposal.pk, hours=1)
    monkeypatch.setattr(simulation_driver, "LONGEST_PART_S", -1.0)
    worked_off()
    for run, what in ((slow, "CE"), (slow_replay, "The replay of a day")):
        run.refresh_from_db()
        assert run.status == FAILED and f"{what} took more than" in run.reason
    monkeypatch.undo()
    broken, fine = ask(world, record), ask(world, record, algorithms=("CE",))
    real = simulation_driver._side_by_side

    def one_is_broken(run, monotonic_s):
        if run.pk == broken.pk:
            raise ZeroDivisionError
        return real(run, monotonic_s)

    monkeypatch.setattr(simulation_driver, "_side_by_side", one_is_broken)
    worked_off()
    for run in (broken, fine):
        run.refresh_from_db()
    assert (broken.status, fine.status) == (FAILED, DONE) and "ZeroDivisionError" in broken.reason


def test_there_are_bounds_and_reasons(world: World) -> None:
    record = recorded(world)
    proposal = planned(world.mo, world.mobility, document("jams", window=20))
    for wrong in ({"algorithms": ()}, {"algorithms": ("nobody",)}, {"hours": 1000}, {"times": 0.0}, {"none": 1}):
        with pytest.raises(InvalidSimulation):
            ask(world, record, **wrong)
    with pytest.raises(InvalidSimulation):
        services.start_replay(actor=world.mo, proposal_id=proposal.pk, hours=169)
    with pytest.raises(PermissionDenied):
        services.start_side_by_side(actor=world.vera, dataflow_id=record.pk, algorithms=("CE",))
    with pytest.raises(NothingToChange):
        services.start_side_by_side(actor=world.mo, dataflow_id=proposal.dataflow.pk, algorithms=("CE",))
    for _ in range(services.MOST_OPEN_EACH):
        run = ask(world, record)
    with pytest.raises(TooManySimulations):
        ask(world, record)
    services.start_replay(actor=world.mo, proposal_id=proposal.pk, hours=1)
    assert forget_simulations(timezone.now()) == 0
    assert forget_simulations(timezone.now() + timedelta(days=31)) == services.MOST_OPEN_EACH + 1
    with pytest.raises(NotFound):
        selectors.simulation(viewer_of(world.carla), run.pk)


def as_person(world: World, name: str) -> Client:
    """A browser of somebody."""
    client = Client()
    client.force_login(world.users[name], backend="dashboard.teams.logins.ThrottledBackend")
    return client


def test_the_page_asks_shows_and_cancels(world: World) -> None:
    record, client = recorded(world), as_person(world, "carla")
    page = f"/dataflows/{record.pk}/simulate"
    assert 'data-note="none"' in client.get(page).content.decode()
    sent = client.post(f"{page}/start", {
        "algorithms": ["CE", "WPA"], "load": "sinusoid", "times": "500", "hours": "3", "billing": "seconds",
        "least": "90", "forecast": "known", "error": "10", "machines": "steady"})
    assert sent.status_code == 302 and sent.url == page
    run = SimulationRun.objects.get()
    assert run.asked["least"] == 0.9 and run.asked["error"] == 0.1 and run.asked["machines"] == "steady"
    assert 'data-run="queued"' in client.get(page).content.decode()
    assert client.get(f"/simulations/{run.pk}/plots.json").json()["profits"]["data"] == []
    worked_off()
    shown = client.get(page).content.decode()
    assert 'data-result="CE"' in shown and 'data-result="WPA"' in shown and 'data-run="done"' in shown
    assert 'data-forecast-of="sense"' in shown
    assert steps_below([1.0, 0.9, 0.85, 0.84, 0.2], 0.9) == 2, "what is above its band is not missed"
    assert ">Missed</abbr>" in shown
    figures = client.get(f"/simulations/{run.pk}/plots.json").json()
    assert [trace["name"] for trace in figures["reached"]["data"]] == ["CE", "WPA"]
    for given in ({"algorithms": []}, {"algorithms": ["CE"], "hours": "many"}, {"algorithms": ["CE"], "times": "inf"}):
        client.post(f"{page}/start", given)
        assert 'data-flash="invalid_simulation"' in client.get(page).content.decode()
    assert SimulationRun.objects.count() == 1
    client.post(f"{page}/start", {"algorithms": ["CE"]})
    client.post(f"/simulations/{SimulationRun.objects.first().pk}/cancel")
    assert 'data-run="cancelled"' in client.get(page).content.decode()
    assert 'data-run="done"' in client.get(f"{page}?run={run.pk}").content.decode()
    assert 'id="simulate"' not in as_person(world, "vera").get(page).content.decode()


def test_the_page_of_a_replay_shows_both_sides(world: World) -> None:
    recorded(world)
    proposal, client = planned(world.mo, world.mobility, document("jams", window=20)), as_person(world, "mo")
    page = f"/proposals/{proposal.pk}/replay"
    assert f'href="{page}"' in client.get(f"/proposals/{proposal.pk}/").content.decode()
    client.post(f"{page}/start", {"hours": "6"})
    worked_off()
    shown = client.get(page).content.decode()
    assert 'data-side="as it is"' in shown and 'data-side="with the plan"' in shown and "traffic/0/" in shown
    run = SimulationRun.objects.get()
    assert len(client.get(f"/simulations/{run.pk}/plots.json").json()["cores"]["data"]) == 2


def test_the_api_does_the_same(world: World) -> None:
    record, client = recorded(world), as_person(world, "carla")
    proposal = planned(world.carla, world.city, document("jams", window=20))

    def post(path: str, body: dict[str, object]):
        return client.post(path, data=json.dumps(body), content_type="application/json")

    begun = post(f"/api/dataflows/{record.pk}/simulations", {"algorithms": ["CE"], "hours": 1})
    replay = post(f"/api/proposals/{proposal.pk}/replays", {"hours": 1})
    assert (begun.status_code, replay.status_code) == (201, 201), (begun.content, replay.content)
    assert post(f"/api/dataflows/{record.pk}/simulations", {"algorithms": ["CE"]}).json()["code"] == (
        "too_many_simulations")
    worked_off()
    answer = client.get(f"/api/simulations/{begun.json()['id']}").json()
    assert (answer["status"], answer["sides"]) == (DONE, [])
    assert [algorithm["name"] for algorithm in answer["algorithms"]] == ["CE"]
    assert [(forecast["source"], len(forecast["rates_per_s"])) for forecast in answer["forecasts"]] == [("sense", 4)]
    answer = client.get(f"/api/simulations/{replay.json()['id']}").json()
    assert answer["algorithms"] == [] and [side["title"] for side in answer["sides"]] == ["as it is", "with the plan"]
    assert client.get(f"/api/dataflows/{record.pk}/simulations").json()["total"] == 1
    assert client.get(f"/api/proposals/{proposal.pk}/replays").json()["total"] == 1
    refused = post(f"/api/simulations/{begun.json()['id']}/cancel", {})
    assert (refused.status_code, refused.json()["code"]) == (409, "invalid_transition")
