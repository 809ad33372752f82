"""Profiles in played time: what bundles are seen to do beside them, and what measuring them again brings.

A trial takes its time and its slot, and finds what the model has a task take; so whatever a profile said before, the
new one is what runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from scheduler.controllers.evidence.world import PastProfile, UsedProfile
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.profile import Point, Profile
from scheduler.performance.drift import COMPARED_S, MOST_COMPARED, Drift, Observation, drifts
from scheduler.performance.rates import falls_short

from .flow import QueryLoad
from .setup import PlayedProfile

OBSERVED_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class TaskCost:
    """The cost of a running task: for an event, in seconds of a core, and of its query's batches, in cores."""

    event_s: float
    batches_cores: float


@dataclass
class PlayedProfiles:
    """The profiles in use, by what they are of; what is seen beside them; and the slots on which trials run."""

    in_use: dict[str, PlayedProfile]
    measured_on: dict[str, str] = field(default_factory=dict)  # by slot, what is measured there
    _observations: dict[str, deque[tuple[float, Observation]]] = field(default_factory=dict)  # by profile
    _number: int = 0
    _observed_s: float = 0.0

    @classmethod
    def of(cls, profiles: Iterable[PlayedProfile]) -> PlayedProfiles:
        """Before anything is seen."""
        return cls({profile.used.kind: profile for profile in profiles})

    def observe(
        self, estate: Estate, loads: Mapping[str, QueryLoad], done_per_s: Mapping[str, float],
        came_per_s: Mapping[str, float], now_s: float,
    ) -> None:
        """Note, minute by minute, what each query of one task does that has a profile."""
        if not self.in_use or now_s < self._observed_s + OBSERVED_EVERY_S:
            return
        self._observed_s = now_s
        on_slot: dict[str, int] = {}
        for name in loads:
            for bundle in estate.fragments[name].queries if name in estate.fragments else ():
                on_slot[bundle.slot] = on_slot.get(bundle.slot, 0) + 1
        for profile in self.in_use.values():
            observations = self._observations.setdefault(profile.used.id, deque(maxlen=MOST_COMPARED))
            for task in sorted(profile.tasks & estate.places.keys()):
                fragment = estate.fragments[estate.places[task][0]]
                if fragment.active_tasks != (task,) or fragment.id not in loads:
                    continue
                stable = not falls_short(done_per_s[task], came_per_s[task])
                observations.extend((now_s, Observation(
                    bundle.threads, done_per_s[task] * bundle.weight, loads[fragment.id].cores * bundle.weight, None,
                    stable, on_slot[bundle.slot] > 1)) for bundle in fragment.queries if bundle.weight)

    def used(self, now_s: float) -> Iterator[UsedProfile]:
        """Each with how far what runs is from it."""
        for profile in self.in_use.values():
            if found_drifts := self._drifts(profile, now_s):
                yield replace(profile.used, drifts=found_drifts)

    def past(self, begin_s: float, end_s: float) -> Iterator[PastProfile]:
        """Each with what was seen between two moments."""
        for profile in self.in_use.values():
            yield PastProfile(profile.used, profile.profile, begin_s, tuple(
                (at_s, observation) for at_s, observation in self._observations.get(profile.used.id, ())
                if begin_s <= at_s <= end_s))

    def drifts_of(self, kind: str, now_s: float, *, besides: str) -> tuple[Drift, ...]:
        """The deviation of what runs from the profile of a kind; nothing where that is still the one before."""
        profile = self.in_use[kind]
        return () if profile.used.id == besides else self._drifts(profile, now_s)

    def _drifts(self, profile: PlayedProfile, now_s: float) -> tuple[Drift, ...]:
        return drifts(profile.profile, (
            observation for at_s, observation in self._observations.get(profile.used.id, ())
            if at_s >= now_s - COMPARED_S))

    def where_measured(self, identity: str, estate: Estate) -> tuple[str, str]:
        """A slot on which nothing runs and no trial does, of a node of its class; or why on none."""
        profile = next(used for used in self.in_use.values() if used.used.id == identity)
        if profile.why_not:
            return "", profile.why_not
        if profile.used.kind in self.measured_on.values():
            return "", "It is being measured."
        busy = {bundle.slot for fragment in estate.fragments.values() for bundle in fragment.queries}
        free = [slot.name for slot in estate.slots if slot.name not in busy | self.measured_on.keys()
                and Slot.of(slot.name).node in profile.nodes]
        return (free[0], "") if free else ("", "No slot of a machine of its class is free to measure it on.")

    # Trials -----------------------------------------------------------------------------------------------------------

    def begin(self, kind: str, slot: str) -> float:
        """Begin to measure on a slot; for how many seconds that takes it."""
        self.measured_on[slot] = kind
        return self.in_use[kind].sweep_s

    def end(self, kind: str, cost_of: Callable[[str], TaskCost | None]) -> PlayedProfile | None:
        """The profile that was found is used from now on; the one before. None where no task was there to measure."""
        before = self.in_use[kind]
        self.give_up(kind)
        cost = next((cost for task in sorted(before.tasks) if (cost := cost_of(task)) is not None), None)
        if cost is None:
            return None
        self._number += 1
        self.in_use[kind] = replace(
            before, used=replace(before.used, id=f"measured {self._number}"),
            profile=measured_profile(before.profile, cost))
        return before

    def give_up(self, kind: str) -> None:
        """Its slot is free again."""
        self.measured_on = {
            slot: measured_kind for slot, measured_kind in self.measured_on.items() if measured_kind != kind}

    def use_again(self, before: PlayedProfile) -> None:
        """The profile before is used again."""
        self.in_use[before.used.kind] = before


def measured_profile(profile: Profile, cost: TaskCost) -> Profile:
    """A profile with what the model has a task take; one core does it, with however many threads."""
    batches = min(0.9, cost.batches_cores)
    rate_per_s = (1.0 - batches) / cost.event_s
    return replace(profile, points=tuple(
        Point(point.threads, rate_per_s, 1.0, point.memory, batches, point.idle_memory, 1.0 - batches)
        for point in profile.points))
