"""Estimates: what stands for the profile of a type that nobody has measured here, for a first schedule.

They are in no table: they follow from what comes with Weir, from what types declare, and from how fast the cores here
are. A profile that was measured or imported takes an estimate's place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from django.conf import settings

from dashboard import jobs
from dashboard.operations.live_view.nodes import current_speed
from scheduler.model.profile import Profile
from scheduler.performance.shipped import BY_TRIALS, ESTIMATES, SPEED, estimates

NAMED = 5  # task types in a remark


@dataclass(frozen=True, slots=True)
class CoreScale:
    """The scale that estimates hold for: the ``speed`` of the cores here, beside that of the cores that they were made
    on; None before an agent has looked. ``calibrating_s`` is for how long one still looks."""

    speed: float | None
    calibrating_s: int | None = None

    @property
    def factor(self) -> float:
        """The speed of the cores here, as a factor."""
        return (self.speed or SPEED) / SPEED

    @property
    def words(self) -> str:
        """The factor, as the rest of a sentence."""
        if self.speed is None:
            return "not yet scaled to the cores here"
        return f"scaled to the cores here, which are {self.factor:.2f} times as fast as those of the trials"


def scale() -> CoreScale:
    """The speed of the cores here, and whether an agent looks at the moment."""
    reports = jobs.read_live((), {}).reports
    looking = [report.calibrating_s for report in reports.values() if report.calibrating_s is not None]
    return CoreScale(current_speed(), max(looking, default=None))


def estimated_profiles(types: Collection[str] | None = None) -> list[Profile]:
    """An estimate for every config of each type that is neither source nor sink; of these types, or of all."""
    declared = jobs.task_types().values()
    wanted_types = [task_type for task_type in declared if types is None or task_type.name in types]
    return estimates(
        jobs.shipped_profiles(), wanted_types, known_types=declared, speed=current_speed(),
        trigger_s=settings.TRIGGER_MS / 1000)


def is_estimate(profile: Profile) -> bool:
    """True if nobody has measured it here, nor imported it."""
    return profile.origin in ESTIMATES


def estimated_tasks(profiles: Mapping[str, Profile]) -> tuple[str, ...]:
    """The tasks whose profiles are estimates, of profiles by task."""
    return tuple(task for task, profile in profiles.items() if is_estimate(profile))


def why_estimated(profile: Profile) -> str:
    """The basis of an estimate, as the rest of a sentence."""
    if profile.origin == BY_TRIALS:
        return f"two short trials on another machine with another config, {CoreScale(current_speed()).words}"
    return "what the type declares of an event, times what others took of that; nobody has measured it anywhere"


def estimates_remark(profiles: Iterable[Profile]) -> str:
    """The remark of a plan on the estimates that it rests on; empty where there are none."""
    names = sorted({profile.task_type for profile in profiles if is_estimate(profile)})
    if not names:
        return ""
    more = len(names) - NAMED
    named = ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
    return (
        f"Nobody has measured {named} here: rates, slots and price of {'it' if len(names) == 1 else 'them'} are "
        "estimates. Measure before you rely on them.")
