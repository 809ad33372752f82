"""Simulations: algorithms of adaptation side by side on a dataflow, and the recorded time against a proposal's plan."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboard.approvals import selectors as approvals
from dashboard.approvals.lifecycle import OPEN
from dashboard.approvals.replays import LONGEST_H
from dashboard.catalog import selectors as catalog
from dashboard.catalog.lifecycle import RUNNING
from dashboard.pages import flash
from dashboard.pages.simulation_plots import COURSES, replay_figures, side_by_side_figures
from dashboard.simulations import selectors, services
from dashboard.simulations.models import SIDE_BY_SIDE, SimulationRun
from dashboard.simulations.simulation_inputs import NO_SPEEDS, machine_classes, recorded_speeds
from scheduler.adaptation.adaptation_registry import ADAPTATIONS
from scheduler.adaptation.side_by_side import LOADS, MOST_HOURS, OFFERED
from scheduler.controllers.controller_registry import CONTROLLERS
from scheduler.model.errors import NotFound

USUAL = ("CE", "PLAStiCC", "local")
LOAD_WORDS = {"constant": "constant, at the recorded mean", "walk": "random walk within ±50% of the mean",
              "sinusoid": "a day's wave around the mean, with noise", "recorded": "as recorded"}
HOURS = (3, 6, 12, 24, MOST_HOURS)
REPLAY_HOURS = {6: "6 hours", 24: "a day", 72: "three days", round(LONGEST_H): "a week"}


@require_safe
def simulate(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """The form of a simulation, and the results of this dataflow's simulations; ``run`` names one, else the newest."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    runs = selectors.of_dataflow(request.viewer, dataflow_id)
    run, is_running = _chosen(request, runs), record.status == RUNNING
    may_choose = is_running and services.may_simulate(request.viewer)
    return render(request, "simulations/simulate.html", {
        "record": record, "is_running": is_running,
        "no_speeds": "" if may_choose and recorded_speeds(at=timezone.now()) else NO_SPEEDS,
        **_frame(request, runs, run),
        "algorithms": [ADAPTATIONS[name] for name in OFFERED], "usual": USUAL,
        "loads": {name: LOAD_WORDS[name] for name in LOADS}, "hours": HOURS, "classes": machine_classes(),
        "courses": [(name, title) for name, (title, _) in COURSES.items()],
    })


@require_POST
def simulate_start(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """Start a simulation."""
    catalog.dataflow(request.viewer, dataflow_id)
    form = request.POST
    flash.attempt(request, lambda: services.start_side_by_side(
        actor=request.user, dataflow_id=dataflow_id, algorithms=tuple(form.getlist("algorithms")),
        load=form.get("load", "recorded"), times=_number(form.get("times", "1")),
        hours=_whole(form.get("hours", "12")), billing=form.get("billing", "hours"),
        machines=form.get("machines", "made"), least=_number(form.get("least", "80")) / 100,
        forecast=form.get("forecast", "learned"), error=_number(form.get("error", "0")) / 100),
        text="The simulation is queued. Its results appear here.", code="simulating")
    return redirect("simulate", dataflow_id)


@require_safe
def proposal_replay(request: HttpRequest, proposal_id: UUID) -> HttpResponse:
    """The recorded time with the estate as it is, and with the proposal's plan; ``run`` names one, else the newest."""
    proposal = approvals.proposal(request.viewer, proposal_id)
    runs = selectors.of_proposal(proposal.pk)
    run = _chosen(request, runs)
    return render(request, "simulations/replay.html", {
        "proposal": proposal, "record": proposal.dataflow, "hours": REPLAY_HOURS,
        "played": [controller.title for controller in CONTROLLERS.values()],
        "may_play": services.may_simulate(request.viewer) and proposal.status in OPEN,
        "sides": selectors.sides_of(request.viewer, run) if run else [], **_frame(request, runs, run)})


@require_POST
def proposal_replay_start(request: HttpRequest, proposal_id: UUID) -> HttpResponse:
    """Start a replay of a proposal."""
    approvals.proposal(request.viewer, proposal_id)
    flash.attempt(request, lambda: services.start_replay(
        actor=request.user, proposal_id=proposal_id, hours=_whole(request.POST.get("hours", "24"))),
        text="The replay is queued. Its results appear here.", code="replaying")
    return redirect("proposal_replay", proposal_id)


@require_safe
def simulation_plots(request: HttpRequest, run_id: UUID) -> JsonResponse:
    """The results of a simulation over time, as figures."""
    run = selectors.simulation(request.viewer, run_id)
    return JsonResponse(side_by_side_figures(run.results) if run.kind == SIDE_BY_SIDE else replay_figures(
        selectors.sides_of(request.viewer, run)))


@require_POST
def simulation_cancel(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """End a simulation."""
    run = selectors.simulation(request.viewer, run_id)
    flash.attempt(request, lambda: services.cancel_simulation(actor=request.user, run_id=run_id),
                  text="Simulation cancelled.", code="cancelled")
    return redirect("simulate", run.dataflow_id) if run.kind == SIDE_BY_SIDE else redirect(
        "proposal_replay", run.proposal_id)


def _chosen(request: HttpRequest, runs: Any) -> SimulationRun | None:
    """The run that the address names, else the newest."""
    named = request.GET.get("run", "")
    if not named:
        return runs.first()
    run = selectors.simulation(request.viewer, named)
    if not runs.filter(pk=run.pk).exists():
        raise NotFound("There is no such simulation here.", remedy="Choose one from the list.")
    return run


def _frame(request: HttpRequest, runs: Any, run: SimulationRun | None) -> dict[str, Any]:
    return {
        "run": run, "runs": runs[:selectors.SHOWN], "may_start": services.may_simulate(request.viewer),
        "may_cancel": run is not None and run.is_open and (
            run.author_id == request.user.pk or request.viewer.administers)}


def _number(text: str) -> float:
    """A number of the form; NaN, which the field's check refuses, for other text."""
    try:
        number = float(text)
        return number if abs(number) < 1e9 else float("nan")
    except ValueError:
        return float("nan")


def _whole(text: str) -> int:
    """A whole number of the form; 0, which is refused, for what is none."""
    number = _number(text)
    return int(number) if number == number else 0
