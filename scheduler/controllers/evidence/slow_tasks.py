"""The evidence of isolation: tasks that make queries slow of which others need a part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from scheduler.controllers.dry_run import Frame
from scheduler.controllers.task_isolation import HoldUp, HoldUps, Waiting
from scheduler.history.points import Points
from scheduler.history.series import DATAFLOW, MINUTE, QUERY, TASK, TEN_SECONDS, Grain, Series
from scheduler.reuse.isolation import SlowTask, cut_for_others, slow_task

from .fusions import BEFORE_S
from .fusions import effect as effect  # measured as of a fusion
from .world import World

NOT_TWICE = "it was cut in front of there before, which was taken back or turned down"


def evidence(world: World) -> HoldUps | None:
    """The slow tasks of queries that have been slow for long enough; None where nothing is known of what runs."""
    slow_ones = world.slow_tasks()
    if slow_ones is None:
        return None
    cases = [case for slow in slow_ones if (case := _case(world, slow)) is not None]
    measured = _latencies(world, {user.dataflow for case in cases for user in case.waiting}, world.now_s - BEFORE_S)
    return HoldUps(tuple(
        replace(case, waiting=tuple(replace(user, latency_ms=measured.get(user.dataflow)) for user in case.waiting))
        for case in cases), 1000 * world.usual_interval_s)


def frames(world: World, begin_s: float, end_s: float) -> Iterator[Frame]:
    """The minutes in which batches of present chains took longer than others may be held up, with the task that added
    most."""
    chains = [
        fragment for fragment in world.estate.fragments.values() if fragment.active > 1 and not fragment.divided]
    batches = {fragment.id: Series(QUERY, fragment.id, "batch_ms") for fragment in chains}
    latencies = {task: Series(TASK, task, "latency_p50_ms") for fragment in chains for task in fragment.active_tasks}
    points = _read(world, [*batches.values(), *latencies.values()], MINUTE, begin_s, end_s)
    at_s = begin_s
    while at_s <= end_s:
        cases = []
        for fragment in chains:
            batch_ms = _at(points, batches[fragment.id], at_s)
            if batch_ms is None or batch_ms < 1000 * world.hold_s:
                continue
            slow = slow_task(
                fragment, [_at(points, latencies[task], at_s) for task in fragment.active_tasks],
                least_ms=2000 * world.usual_interval_s)
            cases.append(None if slow is None else _case(world, slow))
        yield Frame(at_s, HoldUps(
            tuple(case for case in cases if case is not None), 1000 * world.usual_interval_s))
        at_s += MINUTE.step_s


def _case(world: World, slow: SlowTask) -> HoldUp | None:
    """A slow task as isolation looks at it; None where all who need the query need that task, too."""
    estate, fragment = world.estate, slow.fragment
    cut = cut_for_others(estate, fragment, slow=slow.position, task_types=world.task_types)
    if cut is None:
        return None
    head, parent = fragment.tasks[cut.position], fragment.tasks[cut.position - 1]
    why_not = cut.why_not or (NOT_TWICE if head in world.apart else "")
    first = estate.tasks[fragment.tasks[0]]
    return HoldUp(
        slow.task, estate.tasks[slow.task].type, fragment.id, parent, head, tuple(fragment.active_tasks), slow.added_ms,
        slow.latency_ms, tuple(_waiting(world, set(estate.users[parent]) - set(estate.users[head]))),
        first.parents or (first.id,), why_not)


def _waiting(world: World, users: Iterable[str]) -> Iterator[Waiting]:
    """One running dataflow of each team that waits."""
    teams: set[str] = set()
    for user in sorted(users):
        team = world.estate.submitted[user].team
        if user in world.running and team not in teams:
            teams.add(team)
            yield Waiting(user, team)


def _latencies(world: World, dataflows: Iterable[str], begin_s: float) -> dict[str, float]:
    """Each dataflow's newest median latency in ms, where there is one."""
    series = {name: Series(DATAFLOW, name, "latency_p50_ms") for name in dataflows}
    points = _read(world, series.values(), TEN_SECONDS, begin_s, world.now_s)
    return {
        name: latency_ms for name, line in series.items()
        if line in points and (latency_ms := points[line].newest) is not None}


def _read(
    world: World, series: Iterable[Series], grain: Grain, begin_s: float, end_s: float
) -> Mapping[Series, Points]:
    lines = list(series)
    return world.history.read(lines, grain, begin_s=int(begin_s), end_s=int(end_s)) if lines else {}


def _at(points: Mapping[Series, Points], line: Series, at_s: float) -> float | None:
    return points[line].at(at_s) if line in points else None
