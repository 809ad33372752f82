"""What the steps of another schedule have to say: which bundles start, move, hand over and leave."""

from __future__ import annotations

from collections.abc import Collection

from scheduler.model.estate import Estate
from scheduler.model.fragment import RunningBundle
from scheduler.model.plan import Plan


def check_steps(before: Estate, plan: Plan, after: Estate, left: Collection[str]) -> None:
    """The steps name exactly the bundles that start, move and leave, and the fragments whose weights change."""
    heirs = {step.fragment for step in plan.steps if step.kind == "hand_over"}

    def bundles(estate: Estate) -> dict[str, RunningBundle]:
        return {
            query.part: query for fragment in estate.fragments.values() if fragment.id not in {*heirs, *ended}
            for query in fragment.queries}

    def weights(fragment):
        return {query.part: query.weight for query in fragment.queries if not query.leaving}

    ended = set(before.fragments) - set(after.fragments)
    assert {after.fragments[heir].inherits[0] for heir in heirs} == ended, "what is not divided goes on elsewhere"
    old, new = bundles(before), bundles(after)
    by_kind = {kind: {step.bundle for step in plan.steps if step.kind == kind}
            for kind in ("start_bundle", "move_bundle", "leave_bundle", "hand_over_bundle")}
    assert by_kind["start_bundle"] == set(new) - set(old)
    assert {old[part].id for part in set(old) - set(new)} <= set(left)
    handed = {part for part in set(old) & set(new) if old[part].id != new[part].id}
    assert by_kind["hand_over_bundle"] == {new[part].id for part in handed}
    for part in handed:
        assert new[part].inherits == (old[part].id,) and old[part].slot != new[part].slot
    both = set(old) & set(new)
    assert by_kind["leave_bundle"] == {
        new[bundle].id for bundle in both if new[bundle].leaving and not old[bundle].leaving}
    where = {bundle: (old[bundle].slot, old[bundle].threads) for bundle in both}
    moved = {bundle for bundle in both if where[bundle] != (new[bundle].slot, new[bundle].threads)}
    assert by_kind["move_bundle"] == {new[bundle].id for bundle in moved - handed} and all(
        old[bundle].slot.rpartition("/")[0] == new[bundle].slot.rpartition("/")[0] for bundle in moved)
    assert not any(old[bundle].leaving and not new[bundle].leaving for bundle in both), "what left does not come back"
    assert {step.fragment for step in plan.steps if step.kind == "route"} == {
        fragment_id for fragment_id, fragment in after.fragments.items()
        if fragment_id not in heirs and weights(fragment) != weights(before.fragments[fragment_id])}
    assert {step.fragment for step in plan.steps} <= set(plan.fragments_after)
    assert len({step.key for step in plan.steps}) == len(plan.steps)
    assert plan.generation == before.generation and set(after.tasks) == set(before.tasks)
