"""A plan's bundles before and after: fragment, slot, threads and weight. Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.model.fragment import Fragment, RunningBundle
from scheduler.model.plan import Plan


def bundles_of(plan: Plan, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """The bundles that a plan starts, changes or stops: of divided fragments, and of a schedule all; by task, as the
    dataflow has them, each as a `dashboard.api.answers.proposals.BundleChange`.

    Parameters
    ----------
    names : mapping
        Submitted task ids by running task id.
    """
    order = {running: position for position, running in enumerate(plan.dataflow.running.values())}
    rows = []
    stepped = {step.fragment for step in plan.steps}
    for key in {**plan.fragments_before, **plan.fragments_after}:
        before, after = plan.fragments_before.get(key), plan.fragments_after.get(key)
        if before is not None and after is not None and key not in stepped:
            continue  # only who reads it is another query now
        fragment = after or before
        assert fragment is not None
        was, now = (_parts(side, every=plan.promise is not None) for side in (before, after))
        position = min((order[task] for task in fragment.tasks if task in order), default=len(order))
        rows += [
            (position, number, _row(fragment, was.get(part), now.get(part), names))
            for number, part in enumerate(dict.fromkeys([*was, *now]))]
    return [row for _, _, row in sorted(rows, key=lambda ranked: (ranked[0], ranked[1], ranked[2]["id"]))]


def _parts(fragment: Fragment | None, *, every: bool) -> dict[str, RunningBundle]:
    if fragment is None or not (every or fragment.divided):
        return {}
    return {bundle.part: bundle for bundle in fragment.queries}


def _row(
    fragment: Fragment, was: RunningBundle | None, now: RunningBundle | None, names: Mapping[str, str]
) -> dict[str, Any]:
    bundle = now or was
    assert bundle is not None
    return {
        "id": bundle.id, "fragment": fragment.id, "tasks": [names.get(task, "a task") for task in fragment.tasks],
        "before": _side(was), "after": _side(now), "change": _change(was, now)}


def _side(bundle: RunningBundle | None) -> dict[str, Any] | None:
    if bundle is None:
        return None
    return {"slot": bundle.slot, "threads": bundle.threads, "weight": bundle.weight}


def _change(was: RunningBundle | None, now: RunningBundle | None) -> str:
    if was is None or now is None:
        return "starts" if was is None else "stops"
    if now.leaving and not was.leaving:
        return "leaves"
    if (was.slot, was.threads) != (now.slot, now.threads):
        return "moves"
    return "stays" if was.weight == now.weight else "weighs"
