"""Dry runs of guards over the history that is kept: those of a running task, or others that are tried."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import isnan

from django.utils import timezone

from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.policies.policy_reader import RunningElement
from dashboard.operations.policies.policy_streams import catalog_of, events_between, subject_in
from scheduler.guards.element_policies import ElementPolicy
from scheduler.guards.element_watch import ElementWatch
from scheduler.guards.figure_streams import MEASURED, FigureSubject
from scheduler.guards.guard_compiling import CompiledElement, compile_element
from scheduler.guards.guard_dry_run import GuardDryRun, dry_run
from scheduler.guards.guard_traces import GuardTrace, GuardTracer
from scheduler.guards.guard_tree import WINDOWS
from scheduler.guards.guard_values import GuardEvent, InvalidGuard
from scheduler.guards.task_figures import KeptFigures, is_known, subject_of
from scheduler.history.series import GRAIN_BY_NAME, Series
from scheduler.model.alternates import first_on

MOST_HOURS = 24 * 7
HOUR_S = 3600
WORKS_S = 5.0  # CPU seconds of one trial: somebody waits for it, and others for the process


@dataclass(frozen=True, slots=True)
class GuardTrial:
    """The result of a dry run of guards: in sentences, and switch by switch; for how long each alternate would be on,
    ms."""

    task: str
    begin_ms: int
    end_ms: int
    text: str
    advice: str
    switches: tuple[TriedSwitch, ...]
    on_ms: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TriedSwitch:
    """A switch that guards would have made, and why."""

    at_ms: int
    before: str
    alternate: str
    because: str


def trial_told(run: GuardDryRun) -> GuardTrial:
    """A dry run as pages and the API tell it."""
    return GuardTrial(
        run.element, run.begin_ms, run.end_ms, run.text, run.advice, tuple(
            TriedSwitch(switch.at_ms, switch.before or "", switch.choice.alternate, switch.because)
            for switch in run.switches),
        run.on_ms)


def dry_run_of(element: RunningElement, policy: ElementPolicy, *, hours: int = 24) -> GuardDryRun:
    """Evaluate a policy of a dynamic task over the last hours: what was measured, the events that its team has posted,
    and those that outputs still hold.

    Parameters
    ----------
    hours : int
        From 1 to a week. The last day is looked at every ten seconds, earlier hours every minute.
    """
    end_s = int(timezone.now().timestamp())
    begin_s = end_s - min(max(hours, 1), MOST_HOURS) * HOUR_S
    return replayed(element, policy, begin_s=begin_s, end_s=end_s)[0]


def replayed(
    element: RunningElement, policy: ElementPolicy, *, begin_s: int, end_s: int,
    spent_s: Callable[[], float] = time.thread_time,
) -> tuple[GuardDryRun, GuardTrace]:
    """The same over any time, with what guards saw; raises as `dry_run_of` does.

    Parameters
    ----------
    begin_s, end_s : int
        In seconds since the epoch. What was measured before fills windows, as far as they reach.
    """
    until_s = spent_s() + WORKS_S
    guarded, catalog = policy.element(element.task, element.alternates), catalog_of(policy)
    compiled = compile_element(guarded, catalog)
    subjects: dict[str, FigureSubject] = {"": subject_of(element.estate, element.running.id)} | {
        name: subject_in(element.estate, stream) for name, stream in policy.streams.items() if stream["of"] in MEASURED}
    since_s = begin_s - _longest_s(compiled)

    def look() -> None:
        if spent_s() > until_s:
            raise InvalidGuard(
                f"The policy of {element.task} takes more than {WORKS_S:g} s to try.",
                remedy="Try fewer hours, or guards that name fewer streams.", task=element.task)

    measured = _usable(compiled, _recorded(subjects, since_s, end_s, look), set(subjects))
    posted = events_between(element.estate, policy.streams, since_s * 1000, end_s * 1000, look=look)
    events = sorted([*posted, *measured], key=lambda event: event.at_ms)
    known_ms = next((event.at_ms for event in events if event.stream in subjects), end_s * 1000)
    begin_ms, tracer = max(known_ms, begin_s * 1000), GuardTracer(compiled)

    def seen(watch: ElementWatch, at_ms: int) -> None:
        look()
        tracer(watch, at_ms)

    run = dry_run(
        guarded, catalog, events, begin_ms=begin_ms, end_ms=end_s * 1000, on=first_on(element.alternates).name,
        observe=seen)
    return run, tracer.trace(begin_ms=begin_ms, end_ms=end_s * 1000)


def looked_at(element: RunningElement, policy: ElementPolicy) -> GuardTrace:
    """The trace that guards look at, over no time; raises as `dry_run_of` does."""
    guarded = policy.element(element.task, element.alternates)
    return GuardTracer(compile_element(guarded, catalog_of(policy))).trace(begin_ms=0, end_ms=0)


def _longest_s(compiled: CompiledElement) -> int:
    """The longest time that its windows reach back, a week at most."""
    reach = [node.value[-1] for node, _ in compiled.words if node.word in WINDOWS and isinstance(node.value, tuple)]
    return min(max((int(str(ms)) for ms in reach), default=0) // 1000, MOST_HOURS * HOUR_S)


def _usable(compiled: CompiledElement, events: Iterable[GuardEvent], streams: Collection[str]) -> Iterator[GuardEvent]:
    """The events from the moment on at which guards begin to be evaluated: each figure is known, or has been waited
    for."""
    remembered = {name: KeptFigures() for name in streams}
    waiting = {name for name in streams if name in compiled.streams}
    is_measured = False
    for event in events:
        is_measured = is_measured or any(value is not None for value in event.values.values())
        if not is_measured:
            continue
        event = replace(event, values=remembered[event.stream].take(event.at_ms, event.values))
        if event.stream in waiting and is_known(compiled, event):
            waiting.discard(event.stream)
        if not waiting:
            yield event


def _recorded(
    subjects: Mapping[str, FigureSubject], begin_s: int, end_s: int, look: Callable[[], None]
) -> Iterator[GuardEvent]:
    """The figures of each stream moment by moment, as they were measured; what ``look`` raises ends it."""
    grain = GRAIN_BY_NAME["10s" if end_s - begin_s <= GRAIN_BY_NAME["10s"].keep_s else "1m"]
    lines = {line for subject in subjects.values() for line in subject.series_of_all()}
    moments: dict[int, dict[Series, float]] = {}
    for line, points in DatabaseHistory().read(list(lines), grain, begin_s=begin_s, end_s=end_s).items():
        look()
        for at_s, value in zip(points.times_s.tolist(), points.values.tolist(), strict=True):
            moment = moments.setdefault(at_s, {})
            if not isnan(value):
                moment[line] = value
    for at_s, values in sorted(moments.items()):
        look()
        for name, subject in subjects.items():
            yield GuardEvent(at_s * 1000, name, subject.figures(values))
