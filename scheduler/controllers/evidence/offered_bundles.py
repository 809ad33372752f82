"""What adaptation is told of schedules: the one that a dataflow runs by, and the one for what is expected now."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.controllers.bundle_adaptation import OfferedBundles, other_rate
from scheduler.model.errors import WeirError

from .world import World


def offered_bundles(world: World, dataflow: str, sources_per_s: Sequence[float]) -> OfferedBundles | None:
    """The schedules of a dataflow at the rates that its sources are expected to make; None where it runs without one.

    A schedule has one rate for each source: that of the busiest. Another one is only asked for where it may help.
    """
    now = world.schedule_in_force(dataflow)
    if now is None or not sources_per_s:
        return None
    load_per_s = len(sources_per_s) * max(sources_per_s)
    rate_per_s = other_rate(now, load_per_s, sources=len(sources_per_s))
    if rate_per_s is None or rate_per_s == now.source_per_s:
        return OfferedBundles(now, load_per_s)
    try:
        return OfferedBundles(now, load_per_s, world.schedule_for(dataflow, rate_per_s))
    except WeirError as error:
        return OfferedBundles(now, load_per_s, why_none=(
            f"There is no schedule for {rate_per_s:g} events/s a source: {error.full_message}"))
