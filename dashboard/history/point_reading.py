"""Reading points: the blocks of a grain, and behind their end what finer ones give."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from dashboard.history.block_layout import LAYOUTS, complete_until, stored_between
from dashboard.history.blocks import rows_of
from dashboard.history.models import Block
from dashboard.history.series_ids import known_ids
from scheduler.history.points import Points, folded, grid
from scheduler.history.series import GRAINS, Fold, Grain, Series

Rows = dict[int, NDArray[np.float32]]  # values by series id


def read(series: Collection[Series], grain: Grain, *, begin_s: int, end_s: int) -> Mapping[Series, Points]:
    """Points of a grain that have a part in a range, for each series that is known."""
    ids = known_ids(series)
    first_s, count = grid(begin_s, end_s, grain.step_s)
    rows = _rows({ids[line]: line.fold for line in ids}, grain, first_s, count)
    return {line: Points(first_s, grain.step_s, rows[ids[line]]) for line in dict.fromkeys(series) if line in ids}


def _rows(folds: Mapping[int, Fold], grain: Grain, first_s: int, count: int) -> Rows:
    """Values of each series on a grid."""
    rows = {series_id: np.full(count, np.nan, dtype=np.float32) for series_id in folds}
    end_s = first_s + count * grain.step_s
    stored_until_s = complete_until(grain)
    if first_s < stored_until_s:
        _fill_from_blocks(rows, grain, first_s, count)
    tail_s = max(first_s, stored_until_s)
    if tail_s < end_s:
        finer = GRAINS[GRAINS.index(grain) - 1]
        # No further than there is something: of a range that begins long ago or is to come there are many seconds.
        known_from_s, known_until_s = stored_between(finer)
        before = (max(tail_s, min(known_from_s, end_s)) - first_s) // grain.step_s
        after = min(count, -((first_s - known_until_s) // grain.step_s))
        if before >= after:
            return rows
        times = grain.step_s // finer.step_s
        fine = _rows(folds, finer, first_s + before * grain.step_s, (after - before) * times)
        for series_id, values in fine.items():
            rows[series_id][before:after] = folded(values, times, folds[series_id])
    return rows


def _fill_from_blocks(rows: Rows, grain: Grain, first_s: int, count: int) -> None:
    layout = LAYOUTS[grain]
    by_shard: dict[int, list[int]] = {}
    for series_id in rows:
        by_shard.setdefault(series_id // layout.series, []).append(series_id % layout.series)
    blocks = Block.objects.filter(
        grain_s=grain.step_s, shard__in=sorted(by_shard), begins_s__gt=first_s - layout.span_s,
        begins_s__lt=first_s + count * grain.step_s)
    for shard, begins_s, payload in blocks.values_list("shard", "begins_s", "payload"):
        begin = (begins_s - first_s) // grain.step_s
        for offset, values in rows_of(payload, by_shard[shard]):
            inside = values[max(0, -begin):max(0, count - begin)]
            row = rows[shard * layout.series + offset][max(0, begin):]
            row[:len(inside)] = inside
