"""Renumbering: the same plan for another generation of the estate, whose number new fragments and bundles carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .fragment import Fragment, RunningBundle
from .plan import Plan, Step
from .plan_kinds import PLAN_KINDS
from .settings_of_fragments import USUAL


def renumbered(plan: Plan, generation: int) -> Plan:
    """The plan as it would be computed at that generation; its digest stays as it is.

    New fragments of a plan are called ``f<generation + 1>-<n>``. No earlier estate has such ids, so whatever has one in
    the plan is new.
    """
    numbering = _Numbering(f"f{plan.generation + 1}-", f"f{generation + 1}-")
    promise = plan.promise and replace(
        plan.promise,
        bundles=tuple(replace(bundle, id=numbering.of(bundle.id)) for bundle in plan.promise.bundles))
    return replace(
        plan, generation=generation, promise=promise,
        steps=tuple(numbering.step(step) for step in plan.steps),
        fragments_before=numbering.fragments(plan.fragments_before),
        fragments_after=numbering.fragments(plan.fragments_after),
        settings_after={numbering.of(name): settings for name, settings in plan.settings_after.items()})


def placed_late(plan: Plan) -> tuple[str, ...]:
    """The new fragments, in the order of their numbers, whose slots are chosen only at the plan's enactment.

    They are those of a submission or another version without a schedule, and go where there is least to do then, or to
    the node of the named savepoint from which they begin.
    """
    if not PLAN_KINDS[plan.kind].joins or plan.promise is not None:
        return ()
    new = [fragment_id for fragment_id in plan.fragments_after if fragment_id not in plan.fragments_before
           and not plan.settings_after.get(fragment_id, USUAL).restores]
    return tuple(sorted(new, key=lambda fragment_id: int(fragment_id.rpartition("-")[2])))


def with_slots(plan: Plan, slots: Mapping[str, str]) -> Plan:
    """The plan with these fragments, none of them divided, on these slots."""
    return replace(plan, fragments_after={
        fragment_id: replace(fragment, slot=slots[fragment_id]) if fragment_id in slots else fragment
        for fragment_id, fragment in plan.fragments_after.items()})


class _Numbering:
    """Ids that begin with one prefix, with another in its place."""

    def __init__(self, before: str, after: str) -> None:
        self.before, self.after = before, after

    def of(self, name: str) -> str:
        """The id of a fragment, a bundle or one of their channels."""
        return self.after + name.removeprefix(self.before) if name.startswith(self.before) else name

    def step(self, step: Step) -> Step:
        return replace(
            step, fragment=self.of(step.fragment), reader=step.reader and self.of(step.reader),
            bundle=step.bundle and self.of(step.bundle))

    def fragments(self, fragments: Mapping[str, Fragment]) -> dict[str, Fragment]:
        return {self.of(fragment_id): self._fragment(fragment) for fragment_id, fragment in fragments.items()}

    def _fragment(self, fragment: Fragment) -> Fragment:
        return replace(
            fragment, id=self.of(fragment.id),
            outlets={task: tuple(map(self.of, readers)) for task, readers in fragment.outlets.items()},
            channels={task: self.of(channel) for task, channel in fragment.channels.items()},
            inherits=tuple(map(self.of, fragment.inherits)),
            bundles=tuple(map(self._bundle, fragment.bundles)))

    def _bundle(self, bundle: RunningBundle) -> RunningBundle:
        return replace(
            bundle, id=self.of(bundle.id), root=self.of(bundle.root), inherits=tuple(map(self.of, bundle.inherits)),
            takes=tuple((self.of(giver), ranges) for giver, ranges in bundle.takes))
