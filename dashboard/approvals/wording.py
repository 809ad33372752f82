"""The steps of a plan in words."""

from __future__ import annotations

from scheduler.guards.element_policies import policy_in
from scheduler.model.fragment import Fragment, RunningBundle
from scheduler.model.key_texts import key_in_words
from scheduler.model.plan import Plan, Step
from scheduler.model.settings_of_fragments import USUAL
from scheduler.model.warm_up import at_work_in_words
from scheduler.step_kinds import kind_of


def step_text(plan: Plan, step: Step, names: dict[str, str]) -> str:
    """A step in words, with the names that the document gives its tasks; ids of queries are in its key."""
    fragment = plan.fragments_after.get(step.fragment) or plan.fragments_before[step.fragment]
    return kind_of(step).words.format(
        **_bundle_words(plan, step, fragment),
        slot=_places(fragment), queries=_queries(fragment), reader=_reader(plan, step, names), active=step.active,
        active_before=step.active_before,
        task=names.get(step.task or "", "a task"), setting=_setting(plan, step),
        of_key=", ".join(key_in_words(step.of_key or "")), alternate=step.alternate,
        tasks=" → ".join(names.get(task, "a task") for task in fragment.tasks),
    )


def _setting(plan: Plan, step: Step) -> str:
    """The new setting of a query, or the new alternate of a dynamic task."""
    settings = plan.settings_after.get(step.fragment, USUAL)
    if kind_of(step).of_policy:
        chosen = settings.policies.get(step.task or "")
        return "as its document says" if chosen is None else policy_in(chosen).words
    if step.task in settings.alternates:
        return at_work_in_words(settings.alternates[step.task])
    return "its batches stay open, and events go on as they come" if settings.real_time else "micro-batches"


def _places(fragment: Fragment) -> str:
    """The slots that it is on."""
    return " and ".join(dict.fromkeys(bundle.slot for bundle in fragment.queries))


def _queries(fragment: Fragment) -> str:
    """The slots of a fragment's queries, with threads where it is divided."""
    if not fragment.divided:
        return fragment.slot
    return ", ".join(f"{bundle.slot} with {_threads(bundle)}" for bundle in fragment.queries)


def _reader(plan: Plan, step: Step, names: dict[str, str]) -> str:
    """The query that begins or ceases to read a stream, by its tasks that the plan's dataflow has."""
    reader = step.reader or ""
    fragment = plan.fragments_after.get(reader) or plan.fragments_before.get(reader)
    named = [names[task] for task in fragment.tasks if task in names] if fragment else []
    return " → ".join(named) or "a query of others"


def _bundle_words(plan: Plan, step: Step, fragment: Fragment) -> dict[str, str]:
    """The words of a step on a bundle, and on the weights of all of them."""
    if not kind_of(step).of_bundles:
        return {}
    before = plan.fragments_before.get(step.fragment, fragment)
    now = next((bundle for bundle in fragment.queries if bundle.id == step.bundle), None)
    part = now.part if now else step.bundle
    was = next((bundle for bundle in before.queries if bundle.part == part), None)
    return {
        "place": now.slot if now else "",
        "threads": _threads(now),
        "place_before": was.slot if was else "",
        "threads_before": _threads(was),
        "weights": ", ".join(
            f"{bundle.weight:.1%} to {bundle.slot}" for bundle in fragment.queries if bundle.weight
        ),
    }


def _threads(bundle: RunningBundle | None) -> str:
    if bundle is None:
        return ""
    return f"{bundle.threads} thread{'s' if bundle.threads != 1 else ''}"
