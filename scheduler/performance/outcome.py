"""Outcome: what a schedule promised against what was measured while it ran; which promise was missed, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scheduler.model.promise import BundlePromise, Load, Promise

from .drift import BOUND, LEAST_LOAD
from .rates import by_chance, falls_short
from .seen import BundleSeen, DataflowSeen

LATENCY_BOUND = 0.5  # the prediction of latency is an estimate: half as much again is not yet a miss
AT_PEAK = 0.95  # of what a profile says that threads sustain
TAKEN = 0.9  # of a slot's CPU or memory, besides what its driver takes

What = Literal["rate", "CPU", "memory", "latency"]
Cause = Literal[
    "silent", "failing", "source", "peak", "CPU", "memory", "threads", "drift", "together", "others", "more",
    "estimate", "selectivity"]
Remedy = Literal["compare", "measure", "wait", "source", "slots", "threads"]


_NOT_MEASURED = Load()


@dataclass(frozen=True, slots=True)
class MissReason:
    """The reason for a missed promise, in words, and a remedy; ``task`` is the cause, if it is a single task."""

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
    reason: MissReason


@dataclass(frozen=True, slots=True)
class Deviation:
    """A deviation from the plan that is no missed promise: fewer events for a task."""

    task: str
    planned_per_s: float
    measured_per_s: float
    reason: MissReason


def misses(promise: Promise, dataflow_seen: DataflowSeen) -> tuple[Miss, ...]:
    """The missed promises and their reasons: the rate first, then latency, then the loads of slots.

    Parameters
    ----------
    dataflow_seen : DataflowSeen
        The measurements, over long enough to say something. What is None or absent was not, and is not judged.
    """
    return tuple((
        *_of_rate(promise, dataflow_seen), *_of_latency(promise, dataflow_seen), *_of_slots(promise, dataflow_seen)))


def lasting_misses(promise: Promise, dataflow_seen: DataflowSeen, recent: DataflowSeen | None) -> tuple[Miss, ...]:
    """The promises that were missed and still are, and why they are by now: who was behind only at first, or for a
    moment, is not blamed.

    ``recent`` was measured last, in a part of the time of ``dataflow_seen``; without it all misses count.
    """
    missed = misses(promise, dataflow_seen)
    if recent is None:
        return missed
    # Of few events most of so short a time may be missing by chance: it is only asked whether it is still so.
    still = {(miss.what, miss.where): miss.reason for miss in misses(promise, replace(recent, over_s=None))}
    return tuple(
        replace(miss, reason=still[miss.what, miss.where]) for miss in missed if (miss.what, miss.where) in still)


def deviations(promise: Promise, dataflow_seen: DataflowSeen) -> tuple[Deviation, ...]:
    """The first task of a schedule that keeps its rate for which fewer events come than were planned.

    Plans count with the selectivities that types declare until they are measured. Tasks after it get less in turn.
    """
    if any(_of_rate(promise, dataflow_seen)):
        return ()
    for task in dict.fromkeys(bundle.task for bundle in promise.bundles):
        planned, comes = _planned_per_s(task, promise), dataflow_seen.offered_per_s.get(task)
        if comes is not None and falls_short(comes, planned, over_s=dataflow_seen.over_s):
            return (Deviation(task, planned, comes, MissReason(
                "selectivity", f"{task} gets {comes:.4g} of {planned:.4g} planned events/s, and no task falls "
                "behind: upstream tasks have a lower selectivity than planned", "compare", task)),)
    return ()


def blur_of(promise: Promise, dataflow_seen: DataflowSeen) -> float:
    """The part of its rate that may be missing by chance, as few events as were counted; 0 where they were many."""
    kept_per_s = promise.kept_per_s
    return min(1.0, by_chance(kept_per_s, over_s=dataflow_seen.over_s) / kept_per_s) if kept_per_s else 0.0


def taken_of(promise: Promise, dataflow_seen: DataflowSeen, slot: str) -> Load:
    """The load of a schedule's own bundles on a slot; the whole slot's load where not each of them was measured."""
    loads = [_bundle_seen(bundle, dataflow_seen).load for bundle in promise.on_slots.get(slot, ())]
    whole = dataflow_seen.slots.get(slot, Load())
    cpu, memory = [load.cpu for load in loads], [load.memory for load in loads]
    return Load(
        whole.cpu if None in cpu else sum(share or 0.0 for share in cpu),
        whole.memory if None in memory else sum(share or 0.0 for share in memory))


def promised_of(promise: Promise, dataflow_seen: DataflowSeen, slot: str) -> Load:
    """The promised load for `taken_of`: of its own bundles, or of the whole slot with what others take."""
    loads = [_bundle_seen(bundle, dataflow_seen).load for bundle in promise.on_slots.get(slot, ())]
    own_load, whole = promise.own_load_of(slot), promise.load_of(slot)
    return Load(
        whole.cpu if None in [load.cpu for load in loads] else own_load.cpu,
        whole.memory if None in [load.memory for load in loads] else own_load.memory)


def over(measured: float, promised: float) -> bool:
    """True if a load is so much above what was promised that it is a miss."""
    return measured > promised * (1 + BOUND) and measured > promised + LEAST_LOAD


def _of_rate(promise: Promise, dataflow_seen: DataflowSeen) -> Iterator[Miss]:
    if dataflow_seen.rate_per_s is None or not promise.rate_per_s:
        return
    # What is read along the way counts as well as what goes in: events may pile up between. What does not come for a
    # task is no fault of its own.
    judged = [(dataflow_seen.rate_per_s, promise.kept_per_s)]
    for task in promise.rates_per_s:
        planned = _planned_per_s(task, promise)
        if task in dataflow_seen.read_per_s:
            due_per_s = min(planned, dataflow_seen.offered_per_s.get(task, planned))
            judged.append((dataflow_seen.read_per_s[task], due_per_s))
    short = [measured / due for measured, due in judged if falls_short(measured, due, over_s=dataflow_seen.over_s)]
    if short:
        yield Miss("rate", "", promise.kept_per_s, min(short) * promise.kept_per_s, _limit(promise, dataflow_seen))


def _planned_per_s(task: str, promise: Promise) -> float:
    """The planned rate of a task, for the promised rate."""
    return promise.rates_per_s[task] * promise.kept_per_s / promise.rate_per_s if promise.rate_per_s else 0.0


def _of_latency(promise: Promise, dataflow_seen: DataflowSeen) -> Iterator[Miss]:
    if dataflow_seen.latency_s is None or dataflow_seen.latency_s <= promise.latency_s * (1 + LATENCY_BOUND):
        return
    reason = MissReason("estimate", "no bundle falls behind; batches take longer than estimated", "wait")
    if _limiting(promise, dataflow_seen):
        reason = _limit(promise, dataflow_seen)
    yield Miss("latency", "", promise.latency_s, dataflow_seen.latency_s, reason)


def _of_slots(promise: Promise, dataflow_seen: DataflowSeen) -> Iterator[Miss]:
    for slot in promise.on_slots:
        expected, actual = promised_of(promise, dataflow_seen, slot), taken_of(promise, dataflow_seen, slot)
        for resource, promised, measured in (
            ("CPU", expected.cpu, actual.cpu), ("memory", expected.memory, actual.memory),
        ):
            is_over = measured is not None and over(measured, promised or 0.0)
            if is_over and (slot not in dataflow_seen.mixed or _whole_is_over(promise, dataflow_seen, slot, resource)):
                yield Miss(resource, slot, promised or 0.0, measured, _beyond(promise, dataflow_seen, slot, resource))


def _limit(promise: Promise, dataflow_seen: DataflowSeen) -> MissReason:
    """The reason that keeps the dataflow from its rate."""
    for bundle in promise.bundles:
        silence = _bundle_seen(bundle, dataflow_seen).silent
        if silence:
            return MissReason("silent", f"{silence}, where {bundle.task} is placed", "wait", bundle.task)
    for bundle in promise.bundles:
        cause = _bundle_seen(bundle, dataflow_seen).failing
        if cause:
            return MissReason("failing", f"query {bundle.id} of {bundle.task} fails: {cause}", "wait", bundle.task)
    limiting = _limiting(promise, dataflow_seen)
    if limiting:
        return _of_bundle(promise, dataflow_seen, max(limiting, key=lambda bundle: _use(bundle, dataflow_seen)))
    ids = {bundle.id for bundle in promise.bundles}
    throttled_bundle = next((
        bundle for bundle in promise.bundles
        if not ids.issuperset(_bundle_seen(bundle, dataflow_seen).waits_for)), None)
    if throttled_bundle is not None:
        return MissReason("others", (
            f"{throttled_bundle.task} waits for a query of another dataflow that reads its output and falls behind"),
            "wait", throttled_bundle.task)
    emitted = f"the sources emit {dataflow_seen.rate_per_s:.4g} of {promise.rate_per_s:.4g} events/s"
    return MissReason("source", f"{emitted}; no task falls behind", "source")


def _of_bundle(promise: Promise, dataflow_seen: DataflowSeen, bundle: BundlePromise) -> MissReason:
    """The reason why a bundle that is behind does no more."""
    actual, slot = _bundle_seen(bundle, dataflow_seen), dataflow_seen.slots.get(bundle.slot, Load())
    threads = f"{bundle.threads} thread{'s' if bundle.threads > 1 else ''}"
    handles = f"{bundle.task} on {bundle.slot} ({threads}) handles {_rate(actual)}"
    if _use(bundle, dataflow_seen) >= AT_PEAK:
        return MissReason("peak", f"{handles}, the most that its profile allows", "compare", bundle.task)
    for resource, taken in (("CPU", slot.cpu), ("memory", slot.memory)):
        if taken is not None and taken >= TAKEN:
            beyond = _beyond(promise, dataflow_seen, bundle.slot, resource)
            full = f"the {resource} of {bundle.slot} is fully used ({taken:.0%}), and {bundle.task} waits for it"
            return MissReason(resource, f"{full}; {beyond.why}", beyond.remedy, beyond.task or bundle.task)
    crowd = promise.crowded.get(bundle.slot)
    if crowd is not None:
        return MissReason(
            "threads", f"{handles} and waits for free threads: {crowd.explanation(bundle.slot)}", "threads", bundle.task
        )
    allowed = "" if bundle.sustains_per_s is None else f", although its profile allows {bundle.sustains_per_s:.4g}"
    return MissReason("drift", f"{handles} and falls behind{allowed}", "measure", bundle.task)


def _beyond(promise: Promise, dataflow_seen: DataflowSeen, slot: str, resource: What) -> MissReason:
    """The reason why a slot takes more CPU or memory than was predicted, or all that there is."""
    bundles = promise.on_slots.get(slot, ())
    loads = [_of(_bundle_seen(bundle, dataflow_seen).load, resource) for bundle in bundles]
    if None in loads:
        return MissReason("others", "the use of each single query was not measured", "slots")
    measured = sum(load or 0.0 for load in loads)
    promised = [bundle.cpu if resource == "CPU" else bundle.memory for bundle in bundles]
    # By the profiles, at the rates that came.
    expected = [
        _expected_load(bundle, dataflow_seen, load, taken or 0.0)
        for bundle, load, taken in zip(bundles, promised, loads, strict=True)]
    if over(measured, sum(expected)):
        if slot in dataflow_seen.mixed:
            return _of_mixed(promise, dataflow_seen, slot, resource)
        return _of_own(bundles, dataflow_seen, measured, expected)
    if over(measured, sum(promised)):
        most = max(zip(expected, promised, bundles, strict=True), key=lambda use: use[0] - use[1])[2]
        return MissReason("more", (
            f"{most.task} gets {_rate(_bundle_seen(most, dataflow_seen))} instead of {most.rate_per_s:.4g}"), "compare",
            most.task)
    return MissReason(
        "others", "its queries use what was predicted, and something else on the slot uses the rest", "slots")


def _of_mixed(promise: Promise, dataflow_seen: DataflowSeen, slot: str, resource: What) -> MissReason:
    """Own queries seem to take more, but others share the slot: only the sum over the slot can be judged."""
    if not _whole_is_over(promise, dataflow_seen, slot, resource):
        return MissReason("others", "all queries on it together use what was predicted", "slots")
    return MissReason("together", (
        f"all queries on it use {_of(dataflow_seen.slots[slot], resource):.0%}, where "
        f"{_of(promise.load_of(slot), resource):.0%} was expected; others' are among them, and on a shared slot the "
        "use of each query is not measured"), "slots")


def _of_own(
    bundles: Sequence[BundlePromise], dataflow_seen: DataflowSeen, measured: float, expected: Sequence[float]
) -> MissReason:
    """Own queries take more than their profiles say: the one, or several together, of which one is to take most."""
    most = max(zip(expected, bundles, strict=True), key=lambda use: use[0])[1]
    if len(bundles) == 1:
        return MissReason("drift", (
            f"{most.task} uses {measured:.0%} of it at {_rate(_bundle_seen(most, dataflow_seen))}, where its profile "
            f"says {expected[0]:.0%}"), "measure", most.task)
    tasks = _listed(list(dict.fromkeys(bundle.task for bundle in bundles)))
    of_all = f"the queries of {tasks} use {measured:.0%} of it together, where their profiles say {sum(expected):.0%}"
    return MissReason("together", (
        f"{of_all} at these rates; on a shared slot the use of each query is not measured, {most.task} is expected "
        "to use most"), "measure", most.task)


def _whole_is_over(promise: Promise, dataflow_seen: DataflowSeen, slot: str, resource: What) -> bool:
    """True if all queries on a slot take more than was expected of all; False where that is not measured."""
    whole = _of(dataflow_seen.slots.get(slot, _NOT_MEASURED), resource)
    return whole is not None and over(whole, _of(promise.load_of(slot), resource) or 0.0)


def _of(load: Load, resource: What) -> float | None:
    return load.cpu if resource == "CPU" else load.memory


def _expected_load(bundle: BundlePromise, dataflow_seen: DataflowSeen, promised: float, taken: float) -> float:
    """The expected load of a bundle at the rate that came: what it does, where it was to get none and nobody knows
    more."""
    rate = _bundle_seen(bundle, dataflow_seen).rate_per_s
    if not rate:
        return promised
    return promised * max(1.0, rate / bundle.rate_per_s) if bundle.rate_per_s else taken


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _limiting(promise: Promise, dataflow_seen: DataflowSeen) -> list[BundlePromise]:
    """Bundles that are behind or hold others back, while nothing holds them back."""
    held_back_by = {reader for bundle_seen in dataflow_seen.bundles.values() for reader in bundle_seen.waits_for}
    return [
        bundle for bundle in promise.bundles
        if not _bundle_seen(bundle, dataflow_seen).waits_for
        and (bundle.id in held_back_by or _is_behind(bundle, dataflow_seen))]


def _is_behind(bundle: BundlePromise, dataflow_seen: DataflowSeen) -> bool:
    """True if it reads less than comes for it; where its own rate is unknown, whether its task does."""
    if bundle.task not in dataflow_seen.offered_per_s:
        return False
    offered, rate = dataflow_seen.offered_per_s[bundle.task], _bundle_seen(bundle, dataflow_seen).rate_per_s
    whole = falls_short(dataflow_seen.read_per_s.get(bundle.task, offered), offered, over_s=dataflow_seen.over_s)
    if rate is None:
        return whole
    # Where the whole is known to be behind, one of its bundles is, however few events each gets.
    return falls_short(rate, offered * bundle.share, over_s=None if whole else dataflow_seen.over_s)


def _use(bundle: BundlePromise, dataflow_seen: DataflowSeen) -> float:
    """The load of a bundle as a part of what its profile allows."""
    rate = _bundle_seen(bundle, dataflow_seen).rate_per_s
    return 0.0 if rate is None or not bundle.sustains_per_s else rate / bundle.sustains_per_s


def _bundle_seen(bundle: BundlePromise, dataflow_seen: DataflowSeen) -> BundleSeen:
    return dataflow_seen.bundles.get(bundle.id) or BundleSeen()


def _rate(bundle_seen: BundleSeen) -> str:
    return "an unknown rate" if bundle_seen.rate_per_s is None else f"{bundle_seen.rate_per_s:.4g} events/s"
