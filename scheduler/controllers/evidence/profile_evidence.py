"""The evidence of re-measuring: how far profiles are from what runs, now and then, and where they could be measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scheduler.controllers.controller_port import Effect, MeasureSample
from scheduler.controllers.dry_run import Frame
from scheduler.controllers.loop_values import Round
from scheduler.controllers.remeasuring import DEVIATION, ProfileEvidence, ProfileReading, worst
from scheduler.performance.drift import COMPARED_S, MOST_COMPARED, drifts

from .world import PastProfile, UsedProfile, World

FRAMES_EVERY_S = 900.0  # six hours of observations change little from one to the next


def evidence(world: World) -> ProfileEvidence:
    """Every profile in use that was compared with what runs."""
    return ProfileEvidence(tuple(_reading(world, used) for used in world.used_profiles()))


def frames(world: World, begin_s: float, end_s: float) -> Iterator[Frame]:
    """The evidence of past moments for the present profiles, from the loads of running bundles."""
    past = world.past_profiles(begin_s - COMPARED_S, end_s)
    at_s = begin_s
    while at_s <= end_s:
        yield Frame(at_s, ProfileEvidence(tuple(
            _reading(world, _as_it_was(profile, at_s)) for profile in past if profile.since_s <= at_s)))
        at_s += FRAMES_EVERY_S


def effect(loop_round: Round, world: World) -> Effect | None:
    """The deviation of the new profile from what runs, where enough was seen of it."""
    deviation = worst(world.drifts_since(loop_round))
    if deviation is None or loop_round.changed_s is None:
        return None
    return Effect(loop_round.changed_s, (MeasureSample(world.now_s, {DEVIATION: deviation}),))


def _as_it_was(past: PastProfile, at_s: float) -> UsedProfile:
    observed = [observation for moment_s, observation in past.observations if at_s - COMPARED_S <= moment_s <= at_s]
    return replace(past.used, drifts=drifts(past.profile, observed[-MOST_COMPARED:]))


def _reading(world: World, used: UsedProfile) -> ProfileReading:
    slot, why_not = "", ""
    if any(drift.beyond for drift in used.drifts):
        slot, why_not = world.where_measured(used.id)
    return ProfileReading(used.id, used.kind, used.title, used.team, used.drifts, slot, why_not)
