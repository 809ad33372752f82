"""Working simulations off, part by part: each is stored when it is done, and a worker that dies loses that part alone.

An algorithm is a part; of a replay a day is one, with the estate as it is or with the plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import structlog
from numpy.typing import NDArray

from dashboard.approvals.replays import replayed_part
from dashboard.core.database import writing
from dashboard.simulations.lifecycle import DONE, FAILED, OPEN, QUEUED, RUNNING
from dashboard.simulations.models import SIDE_BY_SIDE, SimulationRun
from dashboard.simulations.selectors import NOW, THEN
from dashboard.simulations.services import PART_H, InvalidSimulation
from dashboard.simulations.simulation_inputs import SimulationInputs, forecasts_of, inputs_of, machine_classes
from scheduler.adaptation.side_by_side import SimulationSetup, simulated, world_of
from scheduler.latency.limits_met import TOLERATED
from scheduler.model.errors import WeirError
from scheduler.replay.setup import Replayed

log = structlog.get_logger(__name__)
_turns: dict[int, int] = {}  # by author, the number of the last part that this process began for that person
WORKS_S = 10.0  # at once: no part is begun after that
LONGEST_PART_S = 90.0
TELLS_S = 1.0  # how far it is, and whether it is still wanted
KEPT = timedelta(days=30)
A_FIGURE_S = 600.0  # replays keep one of so long
STEP_S, STEP_OF_LONG_S = 60.0, 300.0  # of a replay; where it is longer than a part


class SimulationTooLong(InvalidSimulation):
    """A part needs more time than a task has."""


class _NotWanted(Exception):
    """The simulation was cancelled."""


def is_any_open() -> bool:
    """True if any simulation is to be worked at."""
    return SimulationRun.objects.filter(status__in=OPEN).exists()


def advance_simulations(*, at: datetime, monotonic_s: Callable[[], float] = time.monotonic) -> int:
    """Work at open simulations for some seconds, part by part; how many parts were done."""
    began_s, done = monotonic_s(), 0
    while monotonic_s() - began_s < WORKS_S:
        run = _next()
        if run is None:
            break
        _change(run, {QUEUED, RUNNING}, status=RUNNING)
        try:
            result = (_side_by_side if run.kind == SIDE_BY_SIDE else _replay)(run, monotonic_s)
        except _NotWanted:
            continue
        except WeirError as error:
            _change(run, {RUNNING}, status=FAILED, reason=error.full_message, ended=at)
            continue
        except Exception as error:  # the next simulation is not to wait for a defect of this one
            log.exception("simulation_failed", run=str(run.pk))
            _change(run, {RUNNING}, status=FAILED, ended=at,
                    reason=f"Weir failed on it ({type(error).__name__}). The worker's log says why.")
            continue
        results = [*run.results, result]
        is_done = len(results) >= run.parts
        _change(run, {RUNNING}, results=results, progress=len(results) / run.parts,
                **({"status": DONE, "ended": at} if is_done else {}))
        done += 1
    return done


def _next() -> SimulationRun | None:
    """The oldest simulation of the author who has waited longest for a part, so that long ones hold up nobody else."""
    waiting = SimulationRun.objects.filter(status__in=OPEN).order_by("created").values_list("pk", "author_id")
    run, author = min(waiting, key=lambda entry: _turns.get(entry[1], 0), default=(None, None))
    if author is not None:
        _turns[author] = max(_turns.values(), default=0) + 1
    return SimulationRun.objects.select_related("dataflow", "proposal__plan").filter(pk=run).first()


def _change(run: SimulationRun, while_in: set[str], **fields: Any) -> bool:
    """Store what has become of a simulation, unless it is over; whether it was not. Figures, so nothing is audited."""
    with writing():
        return bool(SimulationRun.objects.filter(pk=run.pk, status__in=while_in).update(**fields))


def _side_by_side(run: SimulationRun, monotonic_s: Callable[[], float]) -> dict[str, Any]:
    """The next algorithm of a simulation."""
    options = dict(run.asked)
    stored = options.pop("inputs", None)
    options.pop("forecasts", None)
    if "varies" in options:  # asked for by an earlier version
        steady, is_recorded = not options.pop("varies"), options.pop("recorded_speeds", False)
        options["machines"] = "steady" if steady else "recorded" if is_recorded else "made"
    setup = SimulationSetup(**options)
    inputs = SimulationInputs.of(stored) if stored is not None else inputs_of(
        run.dataflow, at=run.created, with_speeds=setup.machines == "recorded")
    if stored is None:
        _change(run, {RUNNING}, asked=options | {
            "inputs": inputs.as_json(), "forecasts": [asdict(forecast) for forecast in forecasts_of(inputs)]})
    name = setup.algorithms[len(run.results)]
    try:
        world = world_of(
            setup, inputs.dataflow, machine_classes(), inputs.recorded_per_s, np.random.default_rng(setup.seed),
            speeds=list(inputs.speeds.values()))
    except ValueError as error:
        raise InvalidSimulation(f"{error}.", remedy="Choose a smaller load, and start another.") from error
    return asdict(simulated(
        setup, world, name, rng=np.random.default_rng(setup.seed),
        on_step=_watched(run, name, setup.steps, monotonic_s)))


def _watched(run: SimulationRun, part: str, steps: int, monotonic_s: Callable[[], float]) -> Callable[[int], None]:
    """Called at each step of a part: it says how far the part is, and ends one that takes too long or that somebody
    has cancelled."""
    began_s = told_s = monotonic_s()

    def on_step(step: int) -> None:
        nonlocal told_s
        now_s = monotonic_s()
        if now_s - began_s > LONGEST_PART_S:
            raise SimulationTooLong(
                f"{part} took more than {LONGEST_PART_S:.0f} s.", remedy="Choose fewer hours, or other algorithms.")
        if now_s - told_s >= TELLS_S:
            told_s = now_s
            if not _change(run, {RUNNING}, progress=(len(run.results) + step / steps) / run.parts):
                raise _NotWanted

    return on_step


def _replay(run: SimulationRun, monotonic_s: Callable[[], float]) -> dict[str, Any]:
    """The next day of a replay: all of them with the estate as it is, then with the plan."""
    days = run.parts // 2
    side, day = (NOW, THEN)[len(run.results) // days], len(run.results) % days
    end = datetime.fromisoformat(run.asked["at"])
    begin = end - timedelta(hours=run.asked["hours"]) + timedelta(hours=PART_H * day)
    end, step_s = min(end, begin + timedelta(hours=PART_H)), STEP_S if days == 1 else STEP_OF_LONG_S
    played = replayed_part(
        begin=begin, end=end, generation=run.asked["generation"], step_s=step_s,
        proposal=run.proposal if side == THEN else None,
        on_step=_watched(run, "The replay of a day", round((end - begin).total_seconds() / step_s), monotonic_s))
    return {"side": side, **_figures(played)}


def _figures(played: Replayed) -> dict[str, Any]:
    """The stored figures of a part of a replay."""
    limits = []
    for (dataflow, number), limit_s in played.limit_s.items():
        latency_s = played.latency_s[dataflow, number]
        measured = latency_s[np.isfinite(latency_s)]
        limits.append({
            "dataflow": dataflow, "number": number, "limit_s": limit_s, "known": len(measured),
            "missed": int((measured > TOLERATED * limit_s).sum()),
            "latency_s": _figures_kept(latency_s, played.step_s, np.median)})
    return {
        "core_hours": played.core_hours, "cost": played.cost, "currency": played.currency,
        "most_waiting": float(played.waiting.max()), "rounds": len(played.rounds),
        "cores": _figures_kept(played.cores, played.step_s, np.mean), "limits": limits}


def _figures_kept(
    figures: NDArray[np.float64], step_s: float, summary: Callable[[NDArray[np.float64]], Any]
) -> list[float | None]:
    """One figure for each ten minutes; None where nothing is known."""
    a_figure = max(1, round(A_FIGURE_S / step_s))
    parts = [figures[at:at + a_figure] for at in range(0, len(figures), a_figure)]
    finite = [part[np.isfinite(part)] for part in parts]
    return [float(summary(part)) if len(part) else None for part in finite]


def forget_simulations(at: datetime) -> int:
    """Forget simulations that were asked for a month ago; how many."""
    with writing():
        return SimulationRun.objects.filter(created__lt=at - KEPT).delete()[0]
