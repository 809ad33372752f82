"""The dynamic tasks of a dataflow: their alternates, which is on, and which worked on which events.

For pages and API:

- ``dynamic_tasks(viewer, dataflow_id)``: one dataflow in the estate; none where it is not in it
- ``with_switches(viewer, tasks)``: the same with what their queries noted
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from django.utils import timezone

from dashboard import jobs
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.estate_store.readable import is_readable
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.models import AlternateHold, GuardState, KeyHold
from dashboard.teams.permissions import Viewer
from scheduler.contracts.switches import AlternateSwitch, KeySwitch, warming_since_ms
from scheduler.guards.element_policies import ElementPolicy, policy_of
from scheduler.guards.guard_values import FigureValue
from scheduler.model.alternates import (
    BY,
    TaskAlternate,
    alternates_in,
    guards_kind,
    is_dynamic,
    learned_bound,
    working_in,
)
from scheduler.model.fragment import Fragment
from scheduler.model.key_texts import key_in_words
from scheduler.model.settings_of_fragments import USUAL
from scheduler.model.warm_up import on_of, warm_s, warming_of
from scheduler.performance.alternate_costs import AlternateFigures


@dataclass(frozen=True, slots=True)
class HeldKey:
    """A key, by the values of its columns, of which somebody has set the alternate by hand; until when, and who."""

    key: tuple[str, ...]
    alternate: str
    until_ms: int
    by: str


@dataclass(frozen=True, slots=True)
class DynamicTask:
    """A task of a dataflow, by its id there and the running task's; ``on`` is the alternate that is set."""

    task: str
    running: str
    query: str
    on: str
    alternates: tuple[TaskAlternate, ...]
    switches: tuple[AlternateSwitch, ...] = ()
    by: tuple[str, ...] = ()  # the key for which alternates are switched, where they are
    is_learned: bool = False  # whether a learned guard chooses for keys
    key_switches: tuple[KeySwitch, ...] = ()
    policy: ElementPolicy = field(default_factory=ElementPolicy)
    held_until_ms: int | None = None  # somebody holds it as it is
    warming: str = ""  # the alternate that warms up; since when and until when is with its switches
    warm_s: float = 0.0  # for how long each does
    warming_since_ms: int | None = None
    held_keys: tuple[HeldKey, ...] = ()
    warming_until_ms: int | None = None  # then it is to be on; None where its first event has not come
    because: str = ""  # why guards want the alternate that they want; empty where they have not been evaluated
    trouble: str = ""  # of `scheduler.guards.alternate_choice`
    readings: Mapping[str, FigureValue] = field(default_factory=dict)  # of what guards look at, as last seen
    figures: tuple[AlternateFigures, ...] = ()  # in the order of its alternates (`plans.alternate_figures`)

    @property
    def keys_by_alternate(self) -> Mapping[str, int]:
        """The number of keys for which each alternate works that is not that of the task, by the switches that are
        known."""
        newest: dict[str, str] = {}
        for switch in self.key_switches:
            newest.update(switch.keys)
        return Counter(alternate for alternate in newest.values() if alternate)


def dynamic_tasks(viewer: Viewer, dataflow_id: UUID | str) -> list[DynamicTask]:
    """The dynamic tasks of a dataflow, in the order of its document; without their switches."""
    record = dataflow_for(viewer, dataflow_id)
    estate = view_for(viewer).estate
    submitted = estate.submitted.get(str(record.pk))
    tasks = []
    for name, running_id in (submitted.running.items() if submitted is not None else ()):
        running = estate.tasks[running_id]
        if not is_dynamic(running.type):
            continue
        query, _ = estate.places[running_id]
        settings = estate.settings.get(query, USUAL)
        alternates = alternates_in(running.type, running.config)
        at_work = working_in(running.type, running.config, settings.alternates.get(running_id))
        tasks.append(DynamicTask(
            name, running_id, query, on_of(at_work), alternates, by=tuple(running.config.get(BY) or ()),
            is_learned=learned_bound(running.type, running.config) is not None,
            warming=warming_of(at_work), warm_s=warm_s(running.type, running.config),
            policy=policy_of(running_id, alternates, settings, guards_kind(running.config))))
    tasks = [
        replace(task, held_keys=_held_keys(task.running)) if task.by and is_readable(viewer, task.running) else task
        for task in tasks]
    names = [task.running for task in tasks]
    guard_states = GuardState.objects.in_bulk(names) if tasks else {}
    held_until = dict(AlternateHold.objects.filter(pk__in=names, until__gt=timezone.now()).values_list("pk", "until"))
    tasks = [
        replace(task, held_until_ms=round(held_until[task.running].timestamp() * 1000))
        if task.running in held_until else task for task in tasks]
    return [
        replace(task, because=state.because, trouble=state.trouble, readings=state.readings)
        if (state := guard_states.get(task.running)) is not None else task for task in tasks]


def _held_keys(running: str) -> tuple[HeldKey, ...]:
    holds = KeyHold.objects.filter(task=running, until__gt=timezone.now()).select_related("by")
    return tuple(
        HeldKey(key_in_words(hold.key), hold.alternate, round(hold.until.timestamp() * 1000), hold.by.username)
        for hold in holds)


def with_switches(viewer: Viewer, tasks: Sequence[DynamicTask]) -> list[DynamicTask]:
    """The tasks with all switches that are known still; raises ``BrokerAway``.

    Keys are of events: those of a task that reads with another team's credential the viewer does not get.
    """
    switches = jobs.switches_of([task.running for task in tasks])
    keyed = [task.running for task in tasks if task.by and is_readable(viewer, task.running)]
    of_keys = jobs.switches_of(keyed, of_keys=True) if keyed else {}
    tasks = [
        replace(task, switches=switches[task.running], key_switches=of_keys.get(task.running, ())) for task in tasks]
    return [_with_warm_up(task, view_for(viewer).estate.fragments) if task.warming else task for task in tasks]


def _with_warm_up(task: DynamicTask, fragments: Mapping[str, Fragment]) -> DynamicTask:
    queries = {query.id for query in fragments[task.query].queries} if task.query in fragments else set()
    since_ms = warming_since_ms(task.switches, queries, task.warming)
    return task if since_ms is None else replace(
        task, warming_since_ms=since_ms, warming_until_ms=since_ms + round(1000 * task.warm_s))
