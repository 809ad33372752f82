"""Types and alternates by which running tasks are charged: the type by which each one's cost goes, and which alternate
is on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dashboard import jobs
from dashboard.operations.estate_store.fragment_settings import settings_of
from dashboard.operations.models import RunningTaskRow
from scheduler.model.alternates import BY, is_dynamic, types_at_work, working_in
from scheduler.model.fragment import Fragment
from scheduler.model.settings_of_fragments import USUAL
from scheduler.model.warm_up import on_of


@dataclass(frozen=True, slots=True)
class ChargedTask:
    """The names of the types by which a running task's cost goes, each with its share of the task's events; what they
    declare for an event (µs; 0 where they are not installed any more); and of a dynamic task the
    alternate that is on, and the one that warms up (`warm_up.working`), empty where each key has its own.
    """

    types: tuple[tuple[str, float], ...]
    cost_us: float = 0.0
    alternate: str = ""


def charged_tasks(fragments: Mapping[str, Fragment]) -> dict[str, ChargedTask]:
    """Charged work of all tasks of these fragments, by running task; the fragments are by whatever executes them."""
    by_id = {fragment.id: fragment for fragment in fragments.values()}
    homes = {task: fragment.id for fragment in by_id.values() for task in fragment.tasks}
    homes |= {task: fragment.id for fragment in by_id.values() for task in fragment.active_tasks}
    types, names = jobs.task_types(), _types_of(homes)
    charged = {
        task: ChargedTask(((name, 1.0),), types[name].cost_us if name in types else 0.0)
        for task, name in names.items() if not is_dynamic(name)}
    dynamic = [task for task, name in names.items() if is_dynamic(name)]
    chosen = settings_of({homes[task] for task in dynamic}) if dynamic else {}
    for task, config in RunningTaskRow.objects.filter(pk__in=dynamic).values_list("fingerprint", "config"):
        at_work = working_in(names[task], config, chosen.get(homes[task], USUAL).alternates.get(task))
        steps = types_at_work(names[task], config, types, on=on_of(at_work))
        charged[task] = ChargedTask(
            tuple((step.name, share) for step, share in steps), sum(share * step.cost_us for step, share in steps),
            "" if config.get(BY) else at_work)
    return charged


def _types_of(fingerprints: Collection[str]) -> dict[str, str]:
    return dict(RunningTaskRow.objects.filter(pk__in=list(fingerprints)).values_list("fingerprint", "type"))
