"""Making coarser points of what is complete, and forgetting what no longer has to be kept.

Both are safe to repeat and to break off anywhere: a window is stored in one transaction, and finer points go only once
the coarser ones are there.
"""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import numpy as np
from django.db import transaction
from numpy.typing import NDArray

from dashboard.history import annotations, query_lines
from dashboard.history.block_layout import LAYOUTS, complete_until
from dashboard.history.blocks import Matrix, decoded, encoded, sharded
from dashboard.history.models import Block, SeriesRow
from dashboard.history.series_ids import metrics_of, note_seen
from scheduler.history.points import folded
from scheduler.history.series import GRAINS, MINUTE, Fold, Grain, Series

LATE_S = 60  # after the end of a window, in which what was measured in it may still come
SEEN_EVERY_S = 24 * 3600  # how exactly it is kept when a series had points


def seal(now_s: int) -> int:
    """Store the coarser points of every window that is over; how many windows those were."""
    windows = 0
    for fine, coarse in pairwise(GRAINS):
        while (begins_s := _next_window(fine, coarse, now_s)) is not None:
            _seal_window(fine, coarse, begins_s)
            windows += 1
    return windows


def prune(now_s: int) -> int:
    """Forget what is older than each grain keeps, unless no coarser points are made of it yet; how many series went."""
    for fine, coarse in pairwise(GRAINS):
        before_s = min(now_s - fine.keep_s, complete_until(coarse)) - LAYOUTS[fine].span_s
        Block.objects.filter(grain_s=fine.step_s, begins_s__lt=before_s).delete()
    oldest_s = now_s - MINUTE.keep_s
    Block.objects.filter(grain_s=MINUTE.step_s, begins_s__lt=oldest_s - LAYOUTS[MINUTE].span_s).delete()
    annotations.forget(oldest_s)
    query_lines.forget(oldest_s)
    return SeriesRow.objects.filter(seen_s__lt=oldest_s - SEEN_EVERY_S - LAYOUTS[MINUTE].span_s).delete()[0]


def _next_window(fine: Grain, coarse: Grain, now_s: int) -> int | None:
    """The beginning of the next window that is over and not stored yet, or None."""
    span_s = LAYOUTS[coarse].span_s
    first = Block.objects.filter(grain_s=fine.step_s, begins_s__gte=complete_until(coarse)).order_by("begins_s")
    begins_s = first.values_list("begins_s", flat=True).first()
    if begins_s is None:
        return None
    begins_s -= begins_s % span_s
    return begins_s if begins_s + span_s + LATE_S <= now_s else None


@transaction.atomic
def _seal_window(fine: Grain, coarse: Grain, begins_s: int) -> None:
    span_s = LAYOUTS[coarse].span_s
    finer = Block.objects.filter(grain_s=fine.step_s, begins_s__gte=begins_s, begins_s__lt=begins_s + span_s)
    blocks: list[Block] = []
    for shard in sorted(set(finer.values_list("shard", flat=True))):
        first_id = shard * LAYOUTS[fine].series
        matrix = _joined(finer.filter(shard=shard).values_list("begins_s", "payload"), fine, begins_s, span_s)
        ids = matrix.ids.astype(np.int64) + first_id
        values = _folded_rows(ids, matrix.values, coarse.step_s // fine.step_s)
        blocks += [
            Block(grain_s=coarse.step_s, shard=part, begins_s=begins_s, payload=encoded(some))
            for part, some in sharded(ids, values, LAYOUTS[coarse].series)]
        note_seen(ids.tolist(), begins_s + span_s, every_s=SEEN_EVERY_S)
    # Also where it has no series: else it would be looked at for ever.
    nothing = Matrix(np.empty(0, np.uint16), np.empty((0, span_s // coarse.step_s), np.float32))
    blocks = blocks or [Block(grain_s=coarse.step_s, shard=0, begins_s=begins_s, payload=encoded(nothing))]
    Block.objects.bulk_create(blocks, ignore_conflicts=True)


def _joined(blocks: object, grain: Grain, begins_s: int, span_s: int) -> Matrix:
    """The blocks of one shard as one matrix over a window."""
    parts = [(begin_s, decoded(payload)) for begin_s, payload in blocks]
    ids = np.unique(np.concatenate([part.ids for _, part in parts]))
    values = np.full((len(ids), span_s // grain.step_s), np.nan, dtype=np.float32)
    for begin_s, part in parts:
        begin = (begin_s - begins_s) // grain.step_s
        inside = part.values[:, :values.shape[1] - begin]
        values[np.searchsorted(ids, part.ids), begin:begin + inside.shape[1]] = inside
    return Matrix(ids, values)


def _folded_rows(ids: NDArray[np.int64], values: NDArray[np.float32], times: int) -> NDArray[np.float32]:
    """Each row folded as its series' metric is."""
    metrics = metrics_of(int(ids[0]), int(ids[-1])) if len(ids) else {}
    folds = np.array([Series("", "", metrics.get(series_id, "")).fold for series_id in ids.tolist()], dtype=object)
    result = np.empty((len(ids), values.shape[1] // times), dtype=np.float32)
    for fold in get_args(Fold):
        result[folds == fold] = folded(values[folds == fold], times, fold)
    return result
