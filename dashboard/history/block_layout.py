"""The layout of grains in blocks: over how many series and how long a block reaches."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Max, Min

from dashboard.history.models import Block
from scheduler.history.series import MINUTE, SECOND, TEN_SECONDS, Grain


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """``series`` a shard, and ``span_s`` a block. A reader opens the blocks of its series' shard over its range.

    A block of seconds is written every few seconds, so it has many series, to be few rows; the older grains are read
    over long ranges, so theirs have few.
    """

    series: int
    span_s: int


LAYOUTS = {SECOND: BlockLayout(256, 60), TEN_SECONDS: BlockLayout(128, 15 * 60), MINUTE: BlockLayout(64, 6 * 3600)}


def complete_until(grain: Grain) -> int:
    """Up to when points of a coarser grain are stored, in seconds since the epoch; later ones are made of finer ones.

    Of seconds that is for ever: there is nothing finer.
    """
    if grain is SECOND:
        return 2**62
    newest = Block.objects.filter(grain_s=grain.step_s).order_by("-begins_s").values_list("begins_s", flat=True).first()
    return 0 if newest is None else newest + LAYOUTS[grain].span_s


def stored_between(grain: Grain) -> tuple[int, int]:
    """Between which times points of a grain, or of a finer one, are stored, in s since the epoch; twice 0 for none."""
    begins = Block.objects.filter(grain_s__lte=grain.step_s).aggregate(first=Min("begins_s"), last=Max("begins_s"))
    return (0, 0) if begins["last"] is None else (begins["first"], begins["last"] + LAYOUTS[grain].span_s)
