"""The course of what is wrong: since when, how often it came back, and whether it gets worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .series import ALARM, OVER, Annotation

NEW, LASTING, COMES_AND_GOES = "new", "lasting", "comes_and_goes"
NEW_FOR_S = 120
OFTEN, WITHIN_S = 3, 3600  # so many beginnings within so long are a coming and going
LEAST_POINTS = 6
Trend = Literal["rising", "falling", "level", "unknown"]


@dataclass(frozen=True, slots=True)
class FindingCourse:
    """The course of a finding so far.

    ``since_s`` is when it began this time, or None where nobody knows; ``begun`` how often it began in the time that
    was looked at, this one included; ``kind`` one of ``new``, ``lasting`` and ``comes_and_goes``.
    """

    since_s: int | None
    begun: int
    kind: str


def course(notes: Sequence[Annotation], *, now_s: int, since_s: int | None = None) -> FindingCourse:
    """The course of what is wrong now.

    Parameters
    ----------
    notes : sequence of Annotation
        The history of its subject; its alarms count, whatever is told of them.
    """
    begun = sorted({note.at_s for note in notes if note.what == ALARM})
    over = max((note.at_s for note in notes if note.what == OVER), default=-1)
    # What is tried again and again is "since" its last try; it is wrong since the alarm that is not over.
    beginnings = (moment for moment in (since_s, *begun[-1:]) if moment is not None)
    began = min((moment for moment in beginnings if moment == since_s or moment > over), default=None)
    is_new = began is not None and now_s - began < NEW_FOR_S
    lately = sum(moment > now_s - WITHIN_S for moment in begun)
    return FindingCourse(began, max(1, len(begun)), COMES_AND_GOES if lately >= OFTEN else NEW if is_new else LASTING)


def trend(values: Sequence[float | None] | NDArray[np.float32]) -> Trend:
    """The trend of values over their time: the median of their last third against that of their first, by more than a
    fifth of the greater of the two.

    Parameters
    ----------
    values : sequence of float
        In order of time, evenly apart; None or NaN where nothing was measured.
    """
    numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    third = len(numbers) // 3
    first, last = (part[~np.isnan(part)] for part in (numbers[:third], numbers[len(numbers) - third:]))
    if np.count_nonzero(~np.isnan(numbers)) < LEAST_POINTS or not len(first) or not len(last):
        return "unknown"
    before, after = float(np.median(first)), float(np.median(last))
    if abs(after - before) <= 0.2 * max(abs(before), abs(after)):
        return "level"
    return "rising" if after > before else "falling"


def trend_of_events(moments_s: Sequence[int], *, now_s: int, over_s: int) -> Trend:
    """The trend of events over a time: how often in the newer half of a time against the older half."""
    older = sum(now_s - over_s < moment <= now_s - over_s // 2 for moment in moments_s)
    newer = sum(now_s - over_s // 2 < moment <= now_s for moment in moments_s)
    if older + newer < 2:
        return "unknown"
    if max(older, newer) < 2 * min(older, newer) or abs(older - newer) < 2:
        return "level"
    return "rising" if newer > older else "falling"
