"""Interruptions of a plan: the queries that hand over or restart, and whether they change their node."""

from __future__ import annotations

from dataclasses import dataclass

from .model.fragment import Fragment, RunningBundle, node_of
from .model.plan import Plan, Step
from .step_kinds import kind_of


@dataclass(frozen=True, slots=True)
class Interruption:
    """The queries that end by one step, as far as they are known, and whether what goes on is on another node than any
    of them."""

    queries: tuple[RunningBundle, ...]
    between_nodes: bool


def interruptions_of(plan: Plan) -> list[Interruption]:
    """One for each step that interrupts something that runs."""
    return [_interruption(plan, step) for step in plan.steps if kind_of(step).interrupts]


def _interruption(plan: Plan, step: Step) -> Interruption:
    after = plan.fragments_after[step.fragment]
    if kind_of(step).of_bundles:
        parts = {bundle.part for bundle in _bundles(after, step.bundle)}
        leaving = {bundle.id for bundle in after.bundles if bundle.leaving}  # other givers work on
        givers = {name for bundle in _bundles(after, step.bundle) if bundle.takes_keys for name in bundle.inherits}
        ending = tuple(
            bundle for bundle in _bundles(plan.fragments_before.get(step.fragment))
            if bundle.part in parts or bundle.id in givers & leaving)
        nodes = {node_of(bundle.slot) for bundle in _bundles(after, step.bundle)}
    elif not kind_of(step).hands_over:  # it restarts where it is
        return Interruption(_bundles(after), between_nodes=False)
    else:
        ending = tuple(
            bundle for name in after.inherits for bundle in _bundles(plan.fragments_before.get(name)))
        nodes = {node_of(after.slot)}
    return Interruption(
        ending, after.origin not in {"", *nodes} or any(node_of(bundle.slot) not in nodes for bundle in ending))


def _bundles(fragment: Fragment | None, name: str | None = None) -> tuple[RunningBundle, ...]:
    return () if fragment is None else tuple(bundle for bundle in fragment.queries if name in {None, bundle.id})
