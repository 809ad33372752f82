"""Keys of which one alone keeps a bundle busy: no division of keys helps there."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model.key_loads import FrequentKey, KeyLoads
from scheduler.model.ring import Ring

from .uneven_keys import LoadThresholds


def hot_keys(ring: Ring, loads: KeyLoads, cpu: Mapping[str, float]) -> dict[str, FrequentKey]:
    """The most frequent key of each bundle of those with too much to do that would have too much with it alone.

    Parameters
    ----------
    cpu : mapping of str to float
        Of each bundle for which more events wait than it keeps up with: what it takes of its slot.
    """
    most, hot = LoadThresholds().cpu_high, dict[str, FrequentKey]()
    had = dict.fromkeys(ring.served, 0.0)
    for key_range in ring.ranges:
        had[key_range.bundle] += loads.share(key_range)
    for key in loads.frequent:  # the most frequent first
        bundle = ring.owner(key.group)
        if bundle in cpu and had[bundle] and loads.share_of(key) / had[bundle] * cpu[bundle] >= most:
            hot.setdefault(bundle, key)
    return hot
