"""Asking for simulations, and cancelling them."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.utils import timezone

from dashboard.approvals.lifecycle import OPEN as OPEN_PROPOSALS
from dashboard.approvals.permissions import proposal_for
from dashboard.approvals.replays import LONGEST_H
from dashboard.audit.trail import audited
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.plans.selectors import plan_of
from dashboard.simulations.lifecycle import CANCELLED, LIFECYCLE, OPEN
from dashboard.simulations.models import REPLAY, SIDE_BY_SIDE, SimulationRun
from dashboard.simulations.selectors import simulation
from dashboard.simulations.simulation_inputs import NO_SPEEDS, recorded_speeds
from dashboard.teams.models import Role, User
from dashboard.teams.permissions import Viewer, viewer_of
from scheduler.adaptation.side_by_side import SimulationSetup
from scheduler.model.bounds import SIMULATED_TASKS
from scheduler.model.errors import NothingToChange, PermissionDenied, WeirError

MOST_OPEN, MOST_OPEN_TEAM, MOST_OPEN_EACH = 20, 8, 2  # simulations that wait or run: in all, of a team, of a person
PART_H = 24  # a replay is played in parts of so long, each by itself


class TooManySimulations(WeirError):
    """More is to be simulated than anybody waits for."""

    code = "too_many_simulations"


class InvalidSimulation(WeirError):
    """The inputs of a simulation make no sense."""

    code = "invalid_simulation"


def may_simulate(viewer: Viewer) -> bool:
    """True if a viewer may take the machine's time for simulations: engineers of any team may."""
    return viewer.has_role_anywhere(Role.ENGINEER)


def start_side_by_side(*, actor: User, dataflow_id: UUID | str, **options: Any) -> SimulationRun:
    """Ask for algorithms of adaptation side by side on a dataflow that runs."""
    viewer = viewer_of(actor)
    record = dataflow_for(viewer, dataflow_id)
    _require(viewer)
    try:
        setup = SimulationSetup(**options)
    except (TypeError, ValueError) as error:
        raise InvalidSimulation(f"{error}.", remedy="Change what is asked for, and start again.") from error
    submitted = load_estate().submitted.get(str(record.pk))
    if submitted is None:
        raise NothingToChange(f"{record.name} does not run.", remedy="Submit it first: what it takes is measured then.")
    if len(submitted.running) > SIMULATED_TASKS.most:
        raise InvalidSimulation(
            f"{record.name} has {len(submitted.running)} tasks, and algorithms are played with "
            f"{SIMULATED_TASKS.most} at the most.", remedy="Simulate a part of it, submitted by itself.")
    if setup.machines == "recorded" and not recorded_speeds(at=timezone.now()):
        raise NothingToChange(NO_SPEEDS, remedy="Let machines vary by made-up speeds.")
    return _start(actor, SimulationRun(
        kind=SIDE_BY_SIDE, dataflow=record, asked=asdict(setup), parts=len(setup.algorithms), author=actor))


def start_replay(*, actor: User, proposal_id: UUID | str, hours: int = 24) -> SimulationRun:
    """Ask for the last hours as recorded, with the estate as it is and as a proposal would make it."""
    viewer = viewer_of(actor)
    proposal = proposal_for(viewer, proposal_id)
    _require(viewer)
    if not 1 <= hours <= LONGEST_H:
        raise InvalidSimulation(
            f"A replay is of 1 to {LONGEST_H:.0f} hours, not {hours}.", remedy="Choose another time.")
    if proposal.status not in OPEN_PROPOSALS:
        raise NothingToChange(
            f"The proposal is {proposal.status.replace('_', ' ')}: there is no plan to try before it is in force.",
            remedy="Replay a proposal that waits for its reviewers.")
    if plan_of(proposal.plan) is None:
        raise NothingToChange("The proposal has no plan.", remedy="Wait until it is planned.")
    estate = load_estate()
    if not estate.fragments:
        raise NothingToChange("Nothing runs that could be played.", remedy="Submit a dataflow first.")
    return _start(actor, SimulationRun(
        kind=REPLAY, dataflow=proposal.dataflow, proposal=proposal, parts=2 * math.ceil(hours / PART_H), author=actor,
        asked={"hours": hours, "generation": estate.generation, "at": timezone.now().isoformat()}))


def _require(viewer: Viewer) -> None:
    if not may_simulate(viewer):
        raise PermissionDenied("Engineers start simulations.", remedy="Ask an engineer of your team.")


def _start(actor: User, run: SimulationRun) -> SimulationRun:
    with audited(actor=actor, verb="simulation.start", subject=run, team=run.dataflow.team) as audit:
        waiting = SimulationRun.objects.filter(status__in=OPEN)
        of_teams = waiting.filter(author__in=User.objects.filter(teams__in=actor.teams.all()))
        for most, whose, simulations in (
            (MOST_OPEN_EACH, "of yours", waiting.filter(author=actor)),
            (MOST_OPEN_TEAM, "of people of your teams", of_teams), (MOST_OPEN, "in all", waiting),
        ):
            if simulations.count() >= most:
                raise TooManySimulations(
                    f"{most} simulations {whose} are not over, and no more may be.",
                    remedy="Wait for one, or cancel it.")
        run.save()
        audit.details["kind"] = run.kind
    return run


def cancel_simulation(*, actor: User, run_id: UUID | str) -> SimulationRun:
    """End a simulation; by whoever started it, or an administrator. `InvalidTransition` where it is over."""
    viewer = viewer_of(actor)
    simulation(viewer, run_id)
    with audited(actor=actor, verb="simulation.cancel") as audit:
        run = SimulationRun.objects.select_for_update(of=("self",)).select_related("dataflow__team").get(pk=run_id)
        if run.author_id != actor.pk and not viewer.administers:
            raise PermissionDenied("Whoever started a simulation cancels it.", remedy="Ask them, or an administrator.")
        LIFECYCLE.check(run.status, CANCELLED)
        run.status = CANCELLED
        run.ended = timezone.now()
        run.save(update_fields=["status", "ended"])
        audit.subject, audit.team = run, run.dataflow.team
    return run
