"""Evidence on schedules for adaptation: the one that a dataflow runs by, and the one for what is expected now; and of
tasks for which the one of now would cut the ring anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scheduler.controllers.bundle_adaptation import OfferedBundles, other_rate
from scheduler.elasticity.uneven_keys import KeyedLoad, UnevenKeys, uneven_keys
from scheduler.model.errors import WeirError
from scheduler.model.fragment import Fragment
from scheduler.model.key_loads import KeyLoads
from scheduler.model.ring import KeyRange
from scheduler.reuse.division import is_changing_hands, working_bundles

from .expected_rates import name_of
from .lines import MeasuredMeans
from .world import World


def offered_bundles(
    world: World, dataflow: str, sources_per_s: Sequence[float], homes: Sequence[Fragment], measured: MeasuredMeans
) -> OfferedBundles | None:
    """The schedules of a dataflow at the rates that its sources are expected to make; None where it runs without one.

    A schedule has one rate for each source: that of the busiest. Another one is only asked for where it may help.
    """
    now = world.schedule_in_force(dataflow)
    if now is None or not sources_per_s:
        return None
    uneven = dict(_uneven(world, dataflow, homes, measured))
    load_per_s = len(sources_per_s) * max(sources_per_s)
    rate_per_s = other_rate(now, load_per_s, sources=len(sources_per_s))
    if rate_per_s is None or rate_per_s == now.source_per_s:
        return OfferedBundles(now, load_per_s, uneven=uneven)
    try:
        return OfferedBundles(now, load_per_s, world.schedule_for(dataflow, rate_per_s), uneven=uneven)
    except WeirError as error:
        return OfferedBundles(now, load_per_s, uneven=uneven, why_none=(
            f"There is no schedule for {rate_per_s:g} events/s a source: {error.full_message}"))


def _uneven(
    world: World, dataflow: str, homes: Sequence[Fragment], measured: MeasuredMeans
) -> Iterator[tuple[str, UnevenKeys]]:
    """The uneven keys of tasks, by name in the document."""
    by_key = {home.id: home for home in homes if home.divided_by_key and not is_changing_hands(home)}
    for name, loads in (world.key_loads(list(by_key.values())) if by_key else {}).items():
        working = dict(_working(world, by_key[name], loads, measured))
        uneven = uneven_keys(by_key[name].tasks[0], working_bundles(by_key[name]), loads, working)
        if uneven is not None:
            yield name_of(world.estate.submitted[dataflow].running, uneven.task), uneven


def _working(
    world: World, home: Fragment, loads: KeyLoads, measured: MeasuredMeans
) -> Iterator[tuple[str, KeyedLoad]]:
    """The load of each bundle: events in the blocks that wait for it, and how full its slot is."""
    coming = sum(measured.out_per_s.get(parent, 0.0) for parent in world.estate.tasks[home.tasks[0]].parents)
    full = _cores_by_slot(world, measured)
    for bundle in working_bundles(home):
        if bundle.id in measured.cores:
            part = sum(loads.share(KeyRange(first, size, "")) for first, size in bundle.key_ranges)
            blocks = max(0.0, measured.blocks.get(bundle.id, 0.0) - 1.0)  # the newest is on its way
            yield bundle.id, KeyedLoad(
                blocks * measured.apart_s.get(bundle.id, 0.0) * coming * part, full[bundle.slot])


def _cores_by_slot(world: World, measured: MeasuredMeans) -> Mapping[str, float]:
    cores: dict[str, float] = {}
    for fragment in world.estate.fragments.values():
        for bundle in fragment.queries:
            cores[bundle.slot] = cores.get(bundle.slot, 0.0) + measured.cores.get(bundle.id, 0.0)
    return cores
