"""Outcome: what a schedule promised against what was measured while it ran; which promise was missed, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from scheduler.model.promise import BundlePromise, Load, Promise

from .drift import BOUND, LEAST_LOAD

RATE_BOUND = 0.05  # a rate is kept where at least 95% of it is there
LATENCY_BOUND = 0.5  # the prediction of latency is an estimate: half as much again is not yet a miss
AT_PEAK = 0.95  # of what a profile says that threads sustain
TAKEN = 0.9  # of a slot's CPU or memory, besides what its driver takes

What = Literal["rate", "CPU", "memory", "latency"]
Cause = Literal["failing", "source", "peak", "CPU", "memory", "drift", "others", "more", "estimate"]
Remedy = Literal["compare", "measure", "wait", "source", "slots"]


_NOT_MEASURED = Load()


@dataclass(frozen=True, slots=True)
class BundleSeen:
    """What was measured of one bundle. ``waits_for`` are the readers of the full channel that holds it back."""

    rate_per_s: float | None = None
    load: Load = _NOT_MEASURED
    waits_for: tuple[str, ...] = ()
    failing: str = ""


@dataclass(frozen=True)
class Seen:
    """What was measured of a dataflow.

    ``read_per_s`` is what each task takes in (a source: what it makes), ``offered_per_s`` what its parents make.
    ``slots`` are whole slots, with whatever else runs there; ``latencies_s`` are from the source to the end of a task.
    """

    rate_per_s: float | None = None
    latency_s: float | None = None
    read_per_s: Mapping[str, float] = field(default_factory=dict)
    offered_per_s: Mapping[str, float] = field(default_factory=dict)
    bundles: Mapping[str, BundleSeen] = field(default_factory=dict)
    slots: Mapping[str, Load] = field(default_factory=dict)
    latencies_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a promise was missed, in words, and what would help; ``task`` is the one that it comes from, if one."""

    cause: Cause
    why: str
    remedy: Remedy
    task: str = ""


@dataclass(frozen=True, slots=True)
class Miss:
    """A promise that was not kept: of the dataflow where ``where`` is empty, else of that slot."""

    what: What
    where: str
    promised: float
    measured: float
    reason: Reason


def misses(promise: Promise, seen: Seen) -> tuple[Miss, ...]:
    """Which promises were missed, and why: the rate first, then latency, then the loads of slots.

    Parameters
    ----------
    promise : Promise
        What was planned and predicted.
    seen : Seen
        What was measured, over long enough to say something. What is None or absent was not, and is not judged.
    """
    return tuple((*_of_rate(promise, seen), *_of_latency(promise, seen), *_of_slots(promise, seen)))


def taken_of(promise: Promise, seen: Seen, slot: str) -> Load:
    """What a schedule's own bundles take of a slot; the whole slot's load where not each of them was measured."""
    loads = [_seen(bundle, seen).load for bundle in promise.bundles if bundle.slot == slot]
    whole = seen.slots.get(slot, Load())
    cpu, memory = [load.cpu for load in loads], [load.memory for load in loads]
    return Load(
        whole.cpu if None in cpu else sum(one or 0.0 for one in cpu),
        whole.memory if None in memory else sum(one or 0.0 for one in memory))


def promised_of(promise: Promise, seen: Seen, slot: str) -> Load:
    """What was promised of what `taken_of` tells: of its own bundles, or of the whole slot with what others take."""
    loads = [_seen(bundle, seen).load for bundle in promise.bundles if bundle.slot == slot]
    own, whole = promise.own_load_of(slot), promise.load_of(slot)
    return Load(
        whole.cpu if None in [load.cpu for load in loads] else own.cpu,
        whole.memory if None in [load.memory for load in loads] else own.memory)


def over(measured: float, promised: float) -> bool:
    """Whether a load is so much above what was promised that it is a miss."""
    return measured > promised * (1 + BOUND) and measured > promised + LEAST_LOAD


def _of_rate(promise: Promise, seen: Seen) -> Iterator[Miss]:
    if seen.rate_per_s is None or not promise.rate_per_s:
        return
    kept = promise.kept_per_s / promise.rate_per_s
    # What is read along the way counts as well as what goes in: events may pile up between.
    parts = [seen.rate_per_s / promise.kept_per_s] + [
        seen.read_per_s[task] / (planned * kept)
        for task, planned in promise.rates_per_s.items() if planned and task in seen.read_per_s]
    if min(parts) < 1 - RATE_BOUND:
        yield Miss("rate", "", promise.kept_per_s, min(parts) * promise.kept_per_s, _limit(promise, seen))


def _of_latency(promise: Promise, seen: Seen) -> Iterator[Miss]:
    if seen.latency_s is None or seen.latency_s <= promise.latency_s * (1 + LATENCY_BOUND):
        return
    reason = Reason("estimate", "no bundle is behind: batches take longer than the estimate counts with", "wait")
    if _limiting(promise, seen):
        reason = _limit(promise, seen)
    yield Miss("latency", "", promise.latency_s, seen.latency_s, reason)


def _of_slots(promise: Promise, seen: Seen) -> Iterator[Miss]:
    for slot in dict.fromkeys(bundle.slot for bundle in promise.bundles):
        expected, found = promised_of(promise, seen, slot), taken_of(promise, seen, slot)
        for what, promised, measured in (
            ("CPU", expected.cpu, found.cpu), ("memory", expected.memory, found.memory),
        ):
            if measured is not None and over(measured, promised or 0.0):
                yield Miss(what, slot, promised or 0.0, measured, _beyond(promise, seen, slot, what))


def _limit(promise: Promise, seen: Seen) -> Reason:
    """What keeps the dataflow from its rate."""
    for bundle in promise.bundles:
        cause = _seen(bundle, seen).failing
        if cause:
            return Reason("failing", f"query {bundle.id} of {bundle.task} fails: {cause}", "wait", bundle.task)
    limiting = _limiting(promise, seen)
    if limiting:
        return _of_bundle(promise, seen, max(limiting, key=lambda one: _use(one, seen)))
    given = f"{seen.rate_per_s:.4g} of {promise.rate_per_s:.4g} events/s came from the sources"
    return Reason("source", f"{given}; no task is behind and none is held back", "source")


def _of_bundle(promise: Promise, seen: Seen, bundle: BundlePromise) -> Reason:
    """Why a bundle that is behind does no more."""
    found, slot = _seen(bundle, seen), seen.slots.get(bundle.slot, Load())
    threads = f"the {bundle.threads} thread{'s' if bundle.threads > 1 else ''} of {bundle.task} on {bundle.slot}"
    if _use(bundle, seen) >= AT_PEAK:
        return Reason("peak", f"{threads} do {_rate(found)}, all that their profile allows", "compare", bundle.task)
    for what, taken in (("CPU", slot.cpu), ("memory", slot.memory)):
        if taken is not None and taken >= TAKEN:
            beyond = _beyond(promise, seen, bundle.slot, what)
            full = f"the {what} of {bundle.slot} is taken ({taken:.0%}), and {bundle.task} waits for it"
            return Reason(what, f"{full}; {beyond.why}", beyond.remedy, beyond.task or bundle.task)
    allowed = "" if bundle.sustains_per_s is None else f", though their profile allows {bundle.sustains_per_s:.4g}"
    return Reason("drift", f"{threads} do {_rate(found)} and are behind{allowed}", "measure", bundle.task)


def _beyond(promise: Promise, seen: Seen, slot: str, what: What) -> Reason:
    """Why a slot takes more CPU or memory than was predicted, or all that there is."""
    own = [bundle for bundle in promise.bundles if bundle.slot == slot]
    unmeasured = False
    for bundle in own:
        found = _seen(bundle, seen)
        measured, expected = (found.load.cpu, bundle.cpu) if what == "CPU" else (found.load.memory, bundle.memory)
        if measured is None:
            unmeasured = True
            continue
        more = 1.0
        if found.rate_per_s is not None and bundle.rate_per_s:
            more = max(1.0, found.rate_per_s / bundle.rate_per_s)
        if over(measured, expected * more):
            return Reason("drift", (
                f"{bundle.task} takes {measured:.0%} of it at {_rate(found)}, where its profile says "
                f"{expected * more:.0%}"), "measure", bundle.task)
        if over(measured, expected):
            return Reason("more", (
                f"{bundle.task} gets {_rate(found)} instead of {bundle.rate_per_s:.4g}"), "compare", bundle.task)
    if unmeasured:
        return Reason("others", "what its queries take one by one was not measured", "slots")
    return Reason("others", "its queries take what was predicted, and something else on the slot the rest", "slots")


def _limiting(promise: Promise, seen: Seen) -> list[BundlePromise]:
    """Bundles that are behind or hold others back, while nothing holds them back."""
    held_back_by = {reader for found in seen.bundles.values() for reader in found.waits_for}
    return [
        bundle for bundle in promise.bundles
        if not _seen(bundle, seen).waits_for and (bundle.id in held_back_by or _is_behind(bundle, seen))]


def _is_behind(bundle: BundlePromise, seen: Seen) -> bool:
    """Whether it reads less than comes for it; where its own rate is unknown, whether its task does."""
    if bundle.task not in seen.offered_per_s:
        return False
    offered, rate = seen.offered_per_s[bundle.task], _seen(bundle, seen).rate_per_s
    if rate is None:
        return seen.read_per_s.get(bundle.task, offered) < offered * (1 - RATE_BOUND)
    return rate < offered * bundle.share * (1 - RATE_BOUND)


def _use(bundle: BundlePromise, seen: Seen) -> float:
    """What a bundle does, as a part of what its profile allows."""
    rate = _seen(bundle, seen).rate_per_s
    return 0.0 if rate is None or not bundle.sustains_per_s else rate / bundle.sustains_per_s


def _seen(bundle: BundlePromise, seen: Seen) -> BundleSeen:
    return seen.bundles.get(bundle.id) or BundleSeen()


def _rate(found: BundleSeen) -> str:
    return "an unknown rate" if found.rate_per_s is None else f"{found.rate_per_s:.4g} events/s"
