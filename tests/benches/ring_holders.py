"""Who holds the copies of each range of a ring: its owner, and the neighbours clockwise (thesis [3], 6.4.2)."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.elasticity.copies import BundleHome, next_home

from .elastic_ring import ElasticRing

Holders = Mapping[int, tuple[str, ...]]  # token -> who has the state of its range, the owner first


def holders(ring: ElasticRing, homes: Mapping[str, BundleHome], *, copies: int) -> Holders:
    """Who holds each range: its owner, and clockwise the nearest bundles on other machines, zones in turn.

    A copy is on a machine of its own. Of the bundles whose zones have fewest copies of the range, the nearest one
    clockwise has the next. Where there are fewer machines than that takes, there are fewer copies.

    Parameters
    ----------
    copies : int
        r of the thesis: besides the owner's; from 0.
    """
    return {token_range.token: _holders_of(ring, token_range.token, homes, copies) for token_range in ring.ranges}


def _holders_of(ring: ElasticRing, token: int, homes: Mapping[str, BundleHome], copies: int) -> tuple[str, ...]:
    chosen = [ring.tokens[token]]
    while len(chosen) <= copies:
        clockwise = ((other.bundle, homes[other.bundle]) for other in ring.clockwise(token))
        bundle = next_home([homes[bundle_id] for bundle_id in chosen], clockwise)
        if bundle is None:
            break
        chosen.append(bundle)
    return tuple(chosen)
