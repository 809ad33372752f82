"""Cores by the dozen: where a dataflow has hundreds, a decision brings each task near the least power at once, and only
what rounding leaves is given or taken core by core."""

from __future__ import annotations

import math
from collections.abc import Mapping

from .adaptation_port import AdaptationProblem
from .greedy_adaptation import weight_of
from .placement_draft import PlacementDraft


def bring_near(draft: PlacementDraft, problem: AdaptationProblem, powers: Mapping[str, float], *, at_s: float) -> None:
    """Take cores from each task that has more power than it is to have, then give to each that has less.

    They are taken machine by machine, those of the least weight first (4.10, as it is before), so that machines become
    empty; each task keeps one. Free cores are given before machines are rented, of the largest class.

    Parameters
    ----------
    powers : mapping of str to float
        Standard cores that each task is to have about.
    """
    for task in problem.depth_first:
        extra = draft.power(task) - powers[task]
        sites = sorted(draft.cores[task], key=lambda vm: (weight_of(draft, problem, task, vm, at_s), vm))
        for vm in sites:
            speed = draft.speed(vm)
            count = min(draft.cores[task][vm], draft.instances[task] - 1, int(extra / speed) if speed > 0 else 0)
            if count > 0:
                draft.give(task, vm, -count)
                extra -= count * speed
    free = sorted((vm for vm, cores in draft.free.items() if cores), key=draft.speed)  # the quickest last
    for task in problem.depth_first:
        short = powers[task] - draft.power(task)
        while short > 1e-9 or not draft.cores[task]:
            while free and (not draft.free[free[-1]] or draft.speed(free[-1]) <= 0):
                free.pop()
            if not free:
                free.append(draft.rent(problem.largest, at_s=at_s))
            vm = free[-1]
            count = max(1, min(draft.free[vm], math.ceil(short / draft.speed(vm) - 1e-9)))
            draft.give(task, vm, count)
            short -= count * draft.speed(vm)
