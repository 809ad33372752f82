"""Packing bundles into the fewest slots (vector packing): best fit, then patterns, then groups of slots anew.

The search ends as soon as a step reaches a lower bound on the number of slots. Bundles of one shape are alike:

1. best fit, in SAM's order and by falling size, with bounds by sums and dual feasible functions (`packing_bounds`);
2. patterns of shapes (`patterns`): their linear program gives the bound, whole patterns near its optimum a packing;
3. the slots with most room, a few at a time, into one less (`repacking`);
4. for small problems CP-SAT, each time for one slot less, until it proves that there is no packing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from scheduler.model.allocated import Bundle

from .candidates import Candidates
from .diving import dive
from .effort import Effort
from .filling import filled_slots
from .packing_bounds import least_slots
from .packing_patterns import generate, whole_patterns
from .repacking import pack, repacked
from .shapes import Bins, Pattern, Shapes

MOST_SHAPES = 300  # for one linear program
COMMON = 100  # of more shapes that are packed first
LARGEST = 2_000  # shapes times slots up to which all of them are asked for at once
GENERATION = 0.5  # of the effort may go into patterns
DIVING = 0.6  # of what these leave, into a packing by them


def fewest_slots(kinds: Sequence[Bundle], *, effort: Effort) -> tuple[Bins, int]:
    """Pack bundles of any counts, none of them full, with what effort there is.

    Returns
    -------
    tuple of bins and int
        The packing, no worse than best fit in the given order; and a number of slots that none goes below.
    """
    shapes = Shapes.of(kinds)
    least = least_slots(shapes)
    packed = min((best_fit(kinds), best_fit(sorted(kinds, key=_falling))), key=len)
    if len(packed) > least:
        packed = min((packed, *_bins(shapes, kinds, filled_slots(shapes, shapes.counts))), key=len)
    if len(packed) > least and len(shapes) > MOST_SHAPES:
        packed, least = _common_first(shapes, kinds, packed, least, effort)
    elif len(packed) > least and effort.left > 0:
        packed, least = _by_patterns(shapes, kinds, packed, least, effort)
    if len(packed) > least:
        packed = repacked(packed, least, effort=effort)
    while len(packed) > least and effort.left > 0 and len(shapes) * len(packed) <= LARGEST:
        fewer, is_impossible = pack(kinds, len(packed) - 1, effort=effort)
        if is_impossible:
            least = len(packed)
        if fewer is None:
            break
        packed = fewer
    return packed, least


def _common_first(
    shapes: Shapes, kinds: Sequence[Bundle], packed: Bins, least: int, effort: Effort
) -> tuple[Bins, int]:
    """The commonest shapes by patterns, and the others where these leave room: most of LSA's are a task's last part."""
    common = shapes.commonest(COMMON)
    first = [kind for kind in kinds if common.includes(kind)]
    others = [kind for kind in kinds if not common.includes(kind)]
    begun, bound = fewest_slots(first, effort=effort)
    return min(packed, best_fit(sorted(others, key=_falling), begun=begun), key=len), max(least, bound)


def _by_patterns(
    shapes: Shapes, kinds: Sequence[Bundle], packed: Bins, least: int, effort: Effort
) -> tuple[Bins, int]:
    """The bins by diving, then by the patterns that are known: from the bound up, for it is nearly always reached."""
    generation = Effort(GENERATION * effort.left)
    columns = generate(shapes, list(shapes.patterns_of(packed)), least, effort=generation)
    effort.charge(generation.spent)
    diving = Effort(DIVING * effort.left)
    if len(packed) > columns.least and diving.left > 0:
        packed = min((packed, *_bins(shapes, kinds, (dive(columns, effort=diving),))), key=len)
        effort.charge(diving.spent)
    for slots in range(columns.least, min(len(packed), columns.least + 2)):
        patterns = whole_patterns(columns, slots, effort=effort) if effort.left > 0 else None
        for fewer in _bins(shapes, kinds, () if patterns is None else (patterns,)):
            return fewer, columns.least
    return packed, columns.least


def _bins(shapes: Shapes, kinds: Sequence[Bundle], packings: Iterable[dict[Pattern, int]]) -> Iterator[Bins]:
    """The packings that hold the bundles as they are."""
    for patterns in packings:
        bins = shapes.bins_of(patterns, kinds)
        if bins is not None:
            yield bins


def best_fit(kinds: Sequence[Bundle], *, begun: Bins = ()) -> Bins:
    """Each bundle, in order, into the slot with the least free CPU and memory of those that hold it: as SAM does."""
    slots, bins = Candidates(), [list(bundles) for bundles in begun]
    for bundles in bins:
        cpu, memory = 1.0 - sum(bundle.cpu for bundle in bundles), 1.0 - sum(bundle.memory for bundle in bundles)
        slots.add(cpu, memory, memory)
    for bundle in kinds:
        number, unit = -1, replace(bundle, count=1)
        for _ in range(bundle.count):
            # The slot that took its like before is the fullest again, as long as it has enough.
            if number < 0 or not slots.holds(number, bundle.cpu, bundle.memory):
                _, number = slots.cheapest(bundle.cpu, bundle.memory)
            if number < 0:
                number = slots.add(1.0, 1.0, 1.0)
                bins.append([])
            slots.take(number, bundle.cpu, bundle.memory)
            bins[number].append(unit)
    return bins


def _falling(bundle: Bundle) -> float:
    return -max(bundle.cpu, bundle.memory)
