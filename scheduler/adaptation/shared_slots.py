"""Adaptation on shared slots: which alternates are to be on, if tasks have no cores of their own.

The algorithms give whole cores to tasks (`adaptation_port`). Here a slot is one core, which its queries share. To the
algorithms a slot is a machine with many small cores, of which a task has its part of the slot's work. Their answer is
compared on the existing slots with each switch of a single alternate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler.model.checks import FiniteFigures
from scheduler.simulation.cloud import Instant
from scheduler.simulation.elastic import ElasticPlacement, RentedVm, VmClass
from scheduler.simulation.loads import Rates
from scheduler.simulation.problem import Conditions, SimulatedStep, profit_of, value_of, work_out

from .adaptation_port import AdaptationProblem, AdaptationStep, Forecast
from .adaptation_registry import ADAPTATIONS, AdaptationKind

SLACK = 1e-9
GAIN = 0.01  # of profit: what a switch to what is worth more has to bring
MOST_LOOKED_AT = 60  # switches of one alternate: a longer table nobody would read
MOST_CORES = 64.0  # with more to do the algorithm is not asked: it gives one small core after the other
MOST_TASKS = 500  # nor with more of them: CE takes half a second for so many, and for four times as many half a minute


@dataclass(frozen=True)
class AdaptationRoom:
    """Homes of tasks, and the room that slots have for them.

    Parameters
    ----------
    cores : mapping of str to float
        By slot: what of its core is left for these tasks.
    parts : mapping of str to mapping of str to float
        By task: which part of its events is done on which slot; together 1.
    ahead : mapping of str to sequence of float, optional
        By slot its ``cores`` in each of the steps to come, where cores become slower.
    """

    cores: Mapping[str, float]
    parts: Mapping[str, Mapping[str, float]]
    ahead: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AdaptationCandidate(FiniteFigures):
    """A choice of alternates by task, and its effect on the slots that exist or would be made: value Γ, throughput Ω,
    cores, cost an hour, and profit Θ."""

    active: Mapping[str, str] = field(hash=False)
    value: float
    throughput: float
    cores: float
    per_hour: float
    profit: float


@dataclass(frozen=True, slots=True)
class AdaptationAnswer:
    """The chosen alternates, the active ones, the other candidates, and the reason.

    ``more_slots`` is how many slots the algorithm would have taken besides.
    """

    chosen: AdaptationCandidate
    now: AdaptationCandidate
    looked_at: tuple[AdaptationCandidate, ...]
    why: str
    more_slots: int = 0

    @property
    def switches(self) -> dict[str, str]:
        """The alternates that are to be switched on, by task."""
        return {task: name for task, name in self.chosen.active.items() if self.now.active[task] != name}


class _NoChance:
    """A source of chance for algorithms that draw nothing: those that decide within a step of any size."""

    def uniform(self, low: float, high: float, size: int) -> Rates:
        raise ValueError("an algorithm that draws does not decide about slots that are shared")

    def integers(self, high: int) -> int:
        raise ValueError("an algorithm that draws does not decide about slots that are shared")


def slot_class(slot_hour: float, *, tasks: int) -> VmClass:
    """A slot as the algorithms rent it: one standard core in many small ones, several for each task at least."""
    shares = max(100, 4 * tasks)
    return VmClass("slot", shares, 1.0 / shares, 1e15, slot_hour)


def choose_on_slots(
    problem: AdaptationProblem, conditions: Conditions, active: Mapping[str, str], room: AdaptationRoom, *,
    kind: AdaptationKind, forecast: Forecast | None = None,
) -> AdaptationAnswer:
    """Choose the alternates that are to be on, by an algorithm of the registry.

    Within Ω̂ ± ε nothing is changed. Below it, the algorithm's choice is taken if it reaches Ω̂, else the best of all
    candidates. Above it, a choice is taken if it keeps Ω̂ and brings profit.

    Parameters
    ----------
    problem : AdaptationProblem
        With slots as its one class (`slot_class`), paid by the second.
    kind : AdaptationKind
        An algorithm without randomness.
    forecast : Forecast, optional
        Of steps as long as the problem's, for algorithms that look ahead.
    """
    now = candidate_of(problem, conditions, active, room)
    if abs(now.throughput - problem.least) < problem.tolerance:
        return AdaptationAnswer(now, now, (now,), "Throughput is within its band.")
    looked_at = (now, *(
        candidate_of(problem, conditions, neighbour, room) for neighbour in _neighbours(problem, active)))
    chosen, more = now, math.ceil(sum(_needs(problem, conditions, active).values()) - sum(room.cores.values()))
    if more <= MOST_CORES and len(active) <= MOST_TASKS:
        placement = _placement(problem, conditions, active, room)
        answer = _answered(problem, conditions, placement, room, kind, forecast)
        more = max(0, len(answer.vms) - len(placement.vms))
        chosen = candidate_of(problem, conditions, answer.active, room)
    if chosen.active not in [candidate.active for candidate in looked_at]:
        looked_at = (*looked_at, chosen)
    if now.throughput < problem.least:
        return _answer_below(problem, chosen, now, looked_at, more)
    if chosen.active == now.active or chosen.throughput < problem.least - SLACK:
        able = [candidate for candidate in looked_at if candidate.throughput >= problem.least - SLACK]
        chosen = max(able, key=lambda candidate: candidate.profit, default=now)
    if chosen.profit <= now.profit + GAIN:
        return AdaptationAnswer(now, now, looked_at, "No other choice keeps throughput and brings more profit.")
    return AdaptationAnswer(chosen, now, looked_at, "There is room for what is worth more for its cost.", more)


def offer_of(problem: AdaptationProblem, conditions: Conditions, *, algorithm: str) -> AdaptationCandidate:
    """The alternates that an algorithm would deploy at a load, without what waits, and the cores that they take.

    Raises
    ------
    ValueError
        There is more to do than `MOST_CORES` hold, or there are more than `MOST_TASKS`.
    """
    if len(problem.dataflow.tasks) > MOST_TASKS:
        raise ValueError(f"it has {len(problem.dataflow.tasks)} tasks, more than the {MOST_TASKS} that are chosen for")
    dear = {task: max(alternates.values(), key=lambda way: way.event_s * max(1.0, way.selectivity)).name
            for task, alternates in problem.dataflow.tasks.items()}
    if sum(_needs(problem, replace(conditions, waiting={}), dear).values()) > MOST_CORES:
        raise ValueError(f"there is more to do than {MOST_CORES:g} cores hold")
    placement = ADAPTATIONS[algorithm].deploy(problem, conditions.rates_per_s, rng=_NoChance())
    worked = work_out(problem.dataflow, placement, replace(conditions, waiting={}))
    shares = sum(count for on in placement.cores.values() for count in on.values())
    cores = shares * problem.largest.speed
    per_hour = cores * problem.largest.per_hour
    value = value_of(problem.dataflow, placement.active)
    return AdaptationCandidate(
        dict(placement.active), value, worked.reached, cores, per_hour,
        profit_of(problem.dataflow, problem.goal, value=value, cost=per_hour * problem.hours))


def candidate_of(
    problem: AdaptationProblem, conditions: Conditions, active: Mapping[str, str], room: AdaptationRoom
) -> AdaptationCandidate:
    """The results of a choice of alternates on the present slots."""
    placement = _placement(problem, conditions, active, room)
    worked = work_out(problem.dataflow, placement, _on_slots(problem, conditions, room))
    needs = _needs(problem, conditions, active)
    done = {task: worked.out_per_s[task] / problem.dataflow.tasks[task][active[task]].selectivity for task in active}
    cores = sum(
        min(needs[task], done[task] * problem.dataflow.tasks[task][active[task]].event_s) for task in active)
    per_hour = cores * problem.largest.per_hour
    value = value_of(problem.dataflow, active)
    return AdaptationCandidate(
        dict(active), value, worked.reached, cores, per_hour,
        profit_of(problem.dataflow, problem.goal, value=value, cost=per_hour * problem.hours))


def _answer_below(
    problem: AdaptationProblem, chosen: AdaptationCandidate, now: AdaptationCandidate,
    looked_at: tuple[AdaptationCandidate, ...], more: int,
) -> AdaptationAnswer:
    if chosen.throughput >= problem.least - SLACK and chosen.active != now.active:
        return AdaptationAnswer(chosen, now, looked_at, "Throughput is below its goal.", more)
    able = [candidate for candidate in looked_at if candidate.throughput >= problem.least - SLACK]
    best = max(able, key=lambda candidate: candidate.profit) if able else max(
        looked_at, key=lambda candidate: (candidate.throughput, candidate.profit))
    if best.throughput <= now.throughput + problem.tolerance:
        return AdaptationAnswer(now, now, looked_at, "Throughput is below its goal, and no alternate helps.", more)
    reason = "Throughput is below its goal." if able else "Throughput is below its goal, and this comes nearest to it."
    return AdaptationAnswer(best, now, looked_at, reason, more)


def _answered(
    problem: AdaptationProblem, conditions: Conditions, placement: ElasticPlacement, room: AdaptationRoom,
    kind: AdaptationKind, forecast: Forecast | None,
) -> ElasticPlacement:
    worked = SimulatedStep({}, {}, conditions.waiting, {}, 1.0, 1.0)
    # Slots have started: they are known for a step at least.
    instant = Instant(
        problem.starts_s + problem.step_s, placement, worked, conditions.rates_per_s,
        _on_slots(problem, conditions, room).speeds)
    if forecast is not None:
        forecast = replace(forecast, speeds={
            slot: [cores / problem.largest.cores for cores in course] for slot, course in room.ahead.items()})
    return kind.adapt(problem, AdaptationStep(0, instant, forecast=forecast), rng=_NoChance())


def _on_slots(problem: AdaptationProblem, conditions: Conditions, room: AdaptationRoom) -> Conditions:
    return replace(conditions, speeds={
        slot: max(0.0, cores) / problem.largest.cores for slot, cores in room.cores.items()})


def _neighbours(problem: AdaptationProblem, active: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Each switch of one alternate, as many as are looked at."""
    others = ((task, name) for task, alternates in problem.dataflow.tasks.items() for name in alternates
              if name != active[task])
    for (task, name), _ in zip(others, range(MOST_LOOKED_AT), strict=False):
        yield {**active, task: name}


def _needs(
    problem: AdaptationProblem, conditions: Conditions, active: Mapping[str, str]
) -> dict[str, float]:
    """Cores that each task takes for all that waits and comes, if nothing is short anywhere."""
    dataflow, most, needs = problem.dataflow, {}, {}
    for task in dataflow.upstream_first:
        alternate = dataflow.tasks[task][active[task]]
        per_s = conditions.waiting.get(task, 0.0) / conditions.seconds + conditions.rates_per_s.get(task, 0.0) + sum(
            most[parent] for parent in dataflow.parents[task])
        most[task] = per_s * alternate.selectivity
        needs[task] = per_s * alternate.event_s
    return needs


def _placement(
    problem: AdaptationProblem, conditions: Conditions, active: Mapping[str, str], room: AdaptationRoom
) -> ElasticPlacement:
    """Each slot shared by its tasks as they need it."""
    needs, kind = _needs(problem, conditions, active), problem.largest
    cores: dict[str, dict[str, int]] = {task: {} for task in active}
    for slot in room.cores:
        here = {task: needs[task] * parts[slot] for task, parts in room.parts.items() if parts.get(slot, 0.0) > 0}
        for task, count in _shared_out(here, kind.cores).items():
            cores[task][slot] = count
    return ElasticPlacement(dict(active), {slot: RentedVm(kind) for slot in room.cores}, cores)


def _shared_out(needs: Mapping[str, float], shares: int) -> dict[str, int]:
    """Whole shares by need, one at least; those with the greatest remainder get what is over. `ValueError` where there
    are more tasks than shares."""
    if len(needs) > shares:
        raise ValueError(f"{len(needs)} tasks share a slot of {shares} parts")
    total, remaining_shares = sum(needs.values()), shares - len(needs)
    if not needs or total <= 0:
        return dict.fromkeys(needs, shares // max(1, len(needs)))
    exact = {task: remaining_shares * need / total for task, need in needs.items()}
    counts = {task: 1 + math.floor(part) for task, part in exact.items()}
    by_remainder = sorted(exact, key=lambda task: (math.floor(exact[task]) - exact[task], task))
    for task in by_remainder[:shares - sum(counts.values())]:
        counts[task] += 1
    return counts
