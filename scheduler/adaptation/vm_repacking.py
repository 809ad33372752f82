"""Iterative repacking: what is on machines with free cores goes onto fewer and cheaper ones, while Ω stays.

After Kang and Park, "Algorithms for the variable sized bin packing problem", 2003, as Kumbhare 2016, 4.8 uses it. A
machine whose hour is paid is not left for another that would be paid as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from scheduler.simulation.elastic import VmClass

from .adaptation_port import AdaptationProblem, hour_ends
from .placement_draft import PlacementDraft


def move_to_smallest(draft: PlacementDraft, problem: AdaptationProblem) -> None:
    """One core of each task that has more than it needs goes to the smallest class with which Ω stays, or away."""
    kinds = sorted(problem.classes, key=lambda kind: (kind.per_hour, kind.cores * kind.speed))
    for task in problem.depth_first:
        vm = min(draft.cores[task], key=lambda name: (draft.cores[task][name], name))
        speed, least = draft.speed(vm), min(problem.least, draft.throughput)
        draft.give(task, vm, -1)
        if draft.cores[task] and _holds(draft, least):
            continue
        for kind in kinds:
            if kind.speed >= speed:
                draft.give(task, vm)
                break
            smaller = draft.rent(kind)
            draft.give(task, smaller)
            if _holds(draft, least):
                break
            draft.give(task, smaller, -1)
            draft.release(smaller)
        else:
            draft.give(task, vm)


def repack(draft: PlacementDraft, problem: AdaptationProblem, *, at_s: float | None = None) -> None:
    """Empty machines with free cores, or take smaller ones, until neither goes.

    Parameters
    ----------
    at_s : float, optional
        The time, for machines that run: they are changed for others only where their paid hour ends. Without it nothing
        runs yet, and machines without work are given back.
    """
    changed = True
    while changed:
        changed = False
        partly = sorted((vm for vm, free in draft.free.items() if free and draft.on[vm]),
                        key=lambda vm: (sum(draft.on[vm].values()), vm))
        for vm in partly:
            if not draft.free.get(vm) or not draft.on[vm]:
                continue  # another one's move has filled, emptied or replaced it
            ends = at_s is None or hour_ends(problem, draft.vms[vm].begun_s, at_s)
            if _empty(draft, problem, vm, partly) or (ends and _shrink(draft, problem, vm, at_s or 0.0)):
                changed = True
    give_back(draft, problem, at_s=at_s)


def give_back(draft: PlacementDraft, problem: AdaptationProblem, *, at_s: float | None = None) -> None:
    """Give back machines without work, those that run once they would have to be paid again."""
    for vm in [vm for vm, on in draft.on.items() if not on]:
        if at_s is None or hour_ends(problem, draft.vms[vm].begun_s, at_s):
            draft.release(vm)


def _empty(draft: PlacementDraft, problem: AdaptationProblem, vm: str, partly: list[str]) -> bool:
    """Move all that is on a machine to free cores of others that are as quick, if Ω stays."""
    used, speed = sum(draft.on[vm].values()), draft.vms[vm].kind.speed
    others = [other_vm for other_vm in reversed(partly)  # the fullest first
              if other_vm != vm and draft.free.get(other_vm) and draft.on[other_vm]
              and draft.vms[other_vm].kind.speed >= speed]
    if sum(draft.free[other_vm] for other_vm in others) < used:
        return False

    def place() -> None:
        for other_vm in others:
            for task, cores in list(draft.on[vm].items()):
                count = min(cores, draft.free[other_vm])
                if count:
                    draft.give(task, other_vm, count)
                    draft.give(task, vm, -count)

    return _try_change(draft, problem, place)


def _shrink(draft: PlacementDraft, problem: AdaptationProblem, vm: str, at_s: float) -> bool:
    """Change a machine for cheaper ones with as many cores as are used of it, if Ω stays."""
    kind, used = draft.vms[vm].kind, sum(draft.on[vm].values())
    price, kinds = cheapest(tuple(sorted(
        (vm_class for vm_class in problem.classes if vm_class.speed >= kind.speed),
        key=lambda vm_class: vm_class.name)), used)
    if price >= kind.per_hour - 1e-12:
        return False

    def place() -> None:
        for vm_class in kinds:
            new_vm = draft.rent(vm_class, at_s=at_s)
            for task, cores in list(draft.on[vm].items()):
                count = min(cores, draft.free[new_vm])
                if count:
                    draft.give(task, new_vm, count)
                    draft.give(task, vm, -count)
        draft.release(vm)

    return _try_change(draft, problem, place)


@cache
def cheapest(kinds: tuple[VmClass, ...], cores: int) -> tuple[float, tuple[VmClass, ...]]:
    """The classes with so many cores together that cost least an hour, and what they cost."""
    if cores <= 0:
        return 0.0, ()
    best: tuple[float, tuple[VmClass, ...]] = (float("inf"), ())
    for kind in kinds:
        price, others = cheapest(kinds, cores - kind.cores)
        if price + kind.per_hour < best[0]:
            best = price + kind.per_hour, (kind, *others)
    return best


def _try_change(draft: PlacementDraft, problem: AdaptationProblem, change: Callable[[], None]) -> bool:
    """Make a change, and take it back if Ω falls below Ω̂ by it; whether it stays."""
    least, before = min(problem.least, draft.throughput), draft.finished()
    change()
    if _holds(draft, least):
        return True
    draft.restore(before)
    return False


def _holds(draft: PlacementDraft, least: float) -> bool:
    return draft.throughput >= least - 1e-9
