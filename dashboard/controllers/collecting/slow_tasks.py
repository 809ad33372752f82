"""The evidence of isolation: tasks that make queries slow of which others need a part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from django.conf import settings

from dashboard import jobs
from dashboard.catalog import lifecycle as dataflows
from dashboard.controllers.site_world import StoredWorld
from dashboard.operations.diagnosis import slow_queries
from dashboard.operations.diagnosis.slow_queries import SlowTask
from dashboard.operations.live_view.estate_view import View
from scheduler.controllers.dry_run import Frame
from scheduler.controllers.evidence import fusions
from scheduler.controllers.task_isolation import HoldUp, HoldUps, Waiting
from scheduler.history.points import Points
from scheduler.history.series import DATAFLOW, MINUTE, QUERY, TASK, TEN_SECONDS, Grain, Series
from scheduler.reuse.isolation import cut_for_others, slowest_task

NOT_TWICE = "it was cut in front of there before, which was taken back or turned down"


def is_urgent(world: StoredWorld) -> bool:
    """Whether a query is slow of which others need a part: they wait meanwhile."""
    return slow_queries.is_due(at=world.at)


def evidence(world: StoredWorld) -> HoldUps | None:
    """The slow tasks of queries that have been slow for long enough; None where nothing is known of what runs."""
    if not settings.ISOLATES or not slow_queries.is_due(at=world.at):
        return HoldUps()
    if not world.is_heard:
        return None
    view = world.view
    cases = []
    for slow in slow_queries.slow_tasks(view.estate, at=world.at):
        case = _case(view, slow)
        slow_queries.note_why_not(slow, "" if case is None or case.why_not == NOT_TWICE else case.why_not)
        cases += [case] if case is not None else []
    measured = _latencies(
        world, {each.dataflow for case in cases for each in case.waiting}, world.now_s - fusions.BEFORE_S)
    return HoldUps(tuple(
        replace(case, waiting=tuple(replace(each, latency_ms=measured.get(each.dataflow)) for each in case.waiting))
        for case in cases), float(settings.TRIGGER_MS))


def frames(world: StoredWorld, begin_s: float, end_s: float) -> Iterator[Frame]:
    """When batches of the chains of now took longer than others may be held up, minute by minute, and which task added
    most of that."""
    view = world.view
    chains = [
        fragment for fragment in view.estate.fragments.values() if fragment.active > 1 and not fragment.divided]
    batches = {fragment.id: Series(QUERY, fragment.id, "batch_ms") for fragment in chains}
    latencies = {task: Series(TASK, task, "latency_p50_ms") for fragment in chains for task in fragment.active_tasks}
    points = _read(world, [*batches.values(), *latencies.values()], MINUTE, begin_s, end_s)
    at_s = begin_s
    while at_s <= end_s:
        cases = []
        for fragment in chains:
            batch_ms = _at(points, batches[fragment.id], at_s)
            if batch_ms is None or batch_ms < 1000 * settings.HOLD_S:
                continue
            behind_ms = [_at(points, latencies[task], at_s) for task in fragment.active_tasks]
            position = slowest_task(behind_ms, least_ms=2 * settings.TRIGGER_MS)
            if position:
                after, before = behind_ms[position] or 0.0, behind_ms[position - 1] or 0.0
                cases.append(_case(view, SlowTask(fragment, position, after - before, behind_ms[-1] or 0.0)))
        yield Frame(at_s, HoldUps(
            tuple(case for case in cases if case is not None), float(settings.TRIGGER_MS)))
        at_s += MINUTE.step_s


def _case(view: View, slow: SlowTask) -> HoldUp | None:
    """A slow task as isolation looks at it; None where all who need the query need that task, too."""
    estate, fragment = view.estate, slow.fragment
    cut = cut_for_others(estate, fragment, slow=slow.position, task_types=jobs.task_types())
    if cut is None:
        return None
    task, head, parent = (fragment.tasks[place] for place in (slow.position, cut.position, cut.position - 1))
    why_not = cut.why_not or (NOT_TWICE if head in slow_queries.cut_tasks() else "")
    first = estate.tasks[fragment.tasks[0]]
    return HoldUp(
        task, estate.tasks[task].type, fragment.id, parent, head, tuple(fragment.active_tasks), slow.added_ms,
        slow.latency_ms, tuple(_waiting(view, set(estate.users[parent]) - set(estate.users[head]))),
        first.parents or (first.id,), why_not)


def _waiting(view: View, users: Iterable[str]) -> Iterator[Waiting]:
    """One running dataflow of each team that waits."""
    teams: set[str] = set()
    for user in sorted(users):
        record, team = view.records.get(user), view.estate.submitted[user].team
        if record is not None and record.status == dataflows.RUNNING and team not in teams:
            teams.add(team)
            yield Waiting(user, team)


def _latencies(world: StoredWorld, keys: Iterable[str], begin_s: float) -> dict[str, float]:
    """Each dataflow's newest median latency in ms, where there is one."""
    series = {key: Series(DATAFLOW, key, "latency_p50_ms") for key in keys}
    points = _read(world, series.values(), TEN_SECONDS, begin_s, world.now_s)
    return {
        key: latency_ms for key, line in series.items()
        if line in points and (latency_ms := points[line].newest) is not None}


def _read(
    world: StoredWorld, series: Iterable[Series], grain: Grain, begin_s: float, end_s: float
) -> Mapping[Series, Points]:
    lines = list(series)
    return world.history.read(lines, grain, begin_s=int(begin_s), end_s=int(end_s)) if lines else {}


def _at(points: Mapping[Series, Points], line: Series, at_s: float) -> float | None:
    return points[line].at(at_s) if line in points else None
