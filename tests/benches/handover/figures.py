"""What blocks of outputs say of handovers: of the chain that was handed over, and of those beside it. Pure.

Each handover is a window from the wish on, and is held against a window of the same length without one, just after it.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

WITH, WITHOUT = "with", "without"
SOURCE, TARGET, BOTH = "source", "target", "both"
ALL = "all"
# What outputs beside a handover show, and whether more of it is worse.
BESIDE = {"rate_per_s": False, "latency_p50_s": True, "latency_p95_s": True, "stood_still_s": True}


@dataclass(frozen=True, slots=True)
class Block:
    """A block of an output: when it was written (ms since the epoch), how old its events were then (ms), and their
    numbers."""

    written_ms: int
    ages_ms: tuple[int, ...]
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, written_ms: int, batches: Iterable[pa.RecordBatch]) -> Block:
        """A block as it is in a channel."""
        columns = [(batch.column("_born").to_pylist(), batch.column("_seq").to_pylist()) for batch in batches]
        return cls(
            written_ms, tuple(written_ms - born for times, _ in columns for born in times),
            tuple(number for _, numbers in columns for number in numbers))


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time, in ms since the epoch."""

    began_ms: int
    ended_ms: int


def roles(slots: Iterable[str], *, before: Collection[str], after: Collection[str]) -> dict[str, str]:
    """What each slot is in a handover that took a chain from some slots to others; left out where it is nothing."""
    role_names = {(True, False): SOURCE, (False, True): TARGET, (True, True): BOTH}
    return {slot: role_names[where] for slot in slots if (where := (slot in before, slot in after)) in role_names}


def shown(blocks: Sequence[Block], window: Window) -> dict[str, float | None]:
    """What an output shows within a window.

    Its rate: the events of each block count as if they had come evenly since the block before it, so that it does not
    matter how blocks lie to the window. How old events were when they were written. And the longest time from one block
    to the next, as far as any of that is within the window.
    """
    events, still_ms = 0.0, 0
    for earlier, later in itertools.pairwise(blocks):
        overlap_ms = min(later.written_ms, window.ended_ms) - max(earlier.written_ms, window.began_ms)
        if overlap_ms > 0:
            gap_ms = later.written_ms - earlier.written_ms
            events += len(later.ages_ms) * overlap_ms / gap_ms
            still_ms = max(still_ms, gap_ms)
    ages = [
        age for block in blocks if window.began_ms < block.written_ms <= window.ended_ms for age in block.ages_ms]
    return {
        "rate_per_s": 1000 * events / (window.ended_ms - window.began_ms),
        "latency_p50_s": percentile(ages, 50) / 1000 if ages else None,
        "latency_p95_s": percentile(ages, 95) / 1000 if ages else None,
        "oldest_s": max(ages) / 1000 if ages else None,
        "stood_still_s": still_ms / 1000,
    }


def joined(blocks: Iterable[Block]) -> list[Block]:
    """Blocks of one moment as one: a batch of many events is written as several."""
    merged = []
    for _, group in itertools.groupby(blocks, key=lambda block: block.written_ms):
        same = list(group)
        merged.append(Block(
            same[0].written_ms, tuple(age for block in same for age in block.ages_ms),
            tuple(number for block in same for number in block.numbers)))
    return merged


def phases(blocks: Sequence[Block], handed_over: Mapping[str, Any] | None) -> dict[str, float]:
    """Where the time went from the last block of what ended to the first one of its heir; empty where it is not known.

    ``until_recorded_s`` is a batch that was under way, or the rest between two, and the record; ``until_heir_runs_s``
    what nodes report as the gap; ``first_batch_s`` the heir's first batch.
    """
    if handed_over is None:
        return {}
    runs_ms = handed_over["at_ms"]
    recorded_ms = runs_ms - handed_over["gap_ms"]
    last = max((block.written_ms for block in blocks if block.written_ms <= runs_ms), default=None)
    first = min((block.written_ms for block in blocks if block.written_ms > runs_ms), default=None)
    if last is None or first is None:
        return {}
    return {
        "until_recorded_s": (recorded_ms - last) / 1000, "until_heir_runs_s": handed_over["gap_ms"] / 1000,
        "first_batch_s": (first - runs_ms) / 1000}


def whole(blocks: Iterable[Block]) -> dict[str, int]:
    """Events of an output, and how many are lost or doubled: each number comes equally often, and none is left out.

    The last number is left out, for more of it may come.
    """
    counts = Counter(number for block in blocks for number in block.numbers)
    last = max(counts, default=0)
    del counts[last]
    usual = statistics.mode(counts.values()) if counts else 0
    differences = [counts[number] - usual for number in range(last)]
    return {
        "events": counts.total(), "lost": -sum(difference for difference in differences if difference < 0),
        "doubled": sum(difference for difference in differences if difference > 0)}


def summary(handovers: Sequence[Mapping[str, Any]], *, trigger_ms: int) -> dict[str, dict[str, Any]]:
    """By form, and of all, what the output of the chain shows that was handed over.

    Parameters
    ----------
    handovers : sequence of mapping
        Each with ``form``, ``took_s``, what is ``shown`` with it and without (``chain``), and ``phases``.
    trigger_ms : int
        How far apart batches are.

    Returns
    -------
    dict
        Of each figure the median, the value that 95 of 100 do not exceed, the worst, and how many there are; and in how
        many handovers the output stood still for at most a trigger longer than without (``within_a_trigger``).
    """
    forms = dict.fromkeys(handover["form"] for handover in handovers)
    grouped = {form: [handover for handover in handovers if handover["form"] == form] for form in forms}
    return {
        form: {**{name: spread(values) for name, values in _figures(group).items() if values},
               "within_a_trigger": sum(beyond_s(handover) <= trigger_ms / 1000 for handover in group)}
        for form, group in {**grouped, ALL: handovers}.items()}


def beyond_s(handover: Mapping[str, Any]) -> float:
    """For how much longer the output stood still than without a handover."""
    return handover["chain"][WITH]["stood_still_s"] - handover["chain"][WITHOUT]["stood_still_s"]


def _figures(handovers: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    sides = {side: [handover["chain"][side] for handover in handovers] for side in (WITH, WITHOUT)}
    phases = [handover["phases"] for handover in handovers if handover["phases"]]
    return {
        "took_s": [handover["took_s"] for handover in handovers],
        "output_stood_still_s": [figures["stood_still_s"] for figures in sides[WITH]],
        "without_s": [figures["stood_still_s"] for figures in sides[WITHOUT]],
        "beyond_s": [beyond_s(handover) for handover in handovers],
        "oldest_event_s": [figures["oldest_s"] for figures in sides[WITH] if figures["oldest_s"] is not None],
        "oldest_without_s": [figures["oldest_s"] for figures in sides[WITHOUT] if figures["oldest_s"] is not None],
        **{name: [seen[name] for seen in phases]
           for name in ("until_recorded_s", "until_heir_runs_s", "first_batch_s")}}


def beside(handovers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """By role and figure, what chains show that were not handed over, in windows with a handover and without.

    ``noise`` is how much a window without a handover differs from the next such one: the median, and what 95 of 100
    do not exceed. A figure is unchanged where the median of the paired differences is within the former. ``worse``
    counts the windows that are worse than theirs without by more than the latter.
    """
    slots = dict.fromkeys(slot for handover in handovers for slot in handover["bystanders"])
    present = {seen["role"] for handover in handovers for seen in handover["bystanders"].values()}
    rows = []
    for figure, more_is_worse in BESIDE.items():
        quiet = [[value for handover in handovers if (seen := handover["bystanders"].get(slot)) is not None
                  and (value := seen[WITHOUT][figure]) is not None] for slot in slots]
        noise = [abs(later - earlier) for values in quiet for earlier, later in itertools.pairwise(values)]
        for role in (*(role for role in (SOURCE, TARGET, BOTH) if role in present), ALL):
            pairs = [
                (seen[WITH][figure], seen[WITHOUT][figure])
                for handover in handovers for seen in handover["bystanders"].values()
                if role in (seen["role"], ALL) and None not in (seen[WITH][figure], seen[WITHOUT][figure])]
            if pairs:
                rows.append({"role": role, "figure": figure, **_compared(pairs, noise, more_is_worse=more_is_worse)})
    return rows


def _compared(
    pairs: Sequence[tuple[float, float]], noise: Sequence[float], *, more_is_worse: bool
) -> dict[str, Any]:
    sign = 1 if more_is_worse else -1
    differences = [with_it - without for with_it, without in pairs]
    usual, most = (statistics.median(noise), percentile(noise, 95)) if noise else (0.0, 0.0)
    shift = statistics.median(differences)
    return {
        "without": _bad_end([without for _, without in pairs], sign),
        "with": _bad_end([beside for beside, _ in pairs], sign),
        "shift": round(shift, 3), "noise": {"median": round(usual, 3), "p95": round(most, 3)},
        "unchanged": sign * shift <= usual, "worse": sum(sign * difference > most for difference in differences),
        "times": len(pairs)}


def _bad_end(values: Sequence[float], sign: int) -> dict[str, float]:
    """The median, and what 95 of 100 reach at least where more is better, or do not exceed."""
    return {
        "median": round(statistics.median(values), 3),
        "p95": round(sign * percentile([sign * value for value in values], 95), 3)}


def spread(values: Sequence[float]) -> dict[str, float]:
    """The median, what 95 of 100 do not exceed, the worst, and how many there are."""
    return {
        "median": round(statistics.median(values), 3), "p95": round(percentile(values, 95), 3),
        "worst": round(max(values), 3), "times": len(values)}


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that so many of a hundred do not exceed, between two of them where need be."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]
