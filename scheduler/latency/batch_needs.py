"""The needs of a query's users for its batches, and the batches that nobody needs: what bills divide batches by. Ours.

Each dataflow is looked at as if it were alone, and each query as if its users had no limit. The games that are made of
that are in `sharing`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler.model.standing_answers import StandingAnswers

from .pacing import LimitOnWay, Pacing, Queries, unlimited_s
from .real_time import BatchModes, choose_modes, opening

MOST_USERS = 200  # of a query, for which it is told apart who needs it how often


@dataclass(frozen=True, slots=True)
class BatchNeeds:
    """The intervals that a query's batches would have, in ms: for each user alone, and if none of its users had a
    limit.

    ``alone_ms`` is empty, and ``unlimited_ms`` None, if all users need batches equally often, or if there are too many
    users to tell them apart.
    """

    alone_ms: Mapping[str, int] = field(default_factory=dict)
    unlimited_ms: int | None = None


def batch_needs(
    queries: Queries, chosen: BatchModes, wants: Mapping[str, Sequence[LimitOnWay]],
    users: Mapping[str, Collection[str]], *, standing: StandingAnswers[Pacing] | None = None,
) -> dict[str, BatchNeeds]:
    """The interval that the users of each query need.

    Of one that leaves its batches open, and would for a user alone, it is how far apart micro-batches are that take as
    much; and no user of such a query needs more of it than that takes. A query that no limit of its users is on would
    be without one as it is. ``standing`` is as of `pace`.
    """
    bearing: dict[str, dict[str, list[tuple[float, float]]]] = {query: {} for query in users}
    for user, limits in wants.items():
        for want in limits:
            for query in want.way.writers:
                bearing.get(query, {}).setdefault(user, []).append((want.limit_s, want.share))
    differing = {query for query, names in users.items()
                 if len({tuple(sorted(bearing[query].get(name, ()))) for name in names}) > 1}
    shared = {query for query in differing if len(users[query]) <= MOST_USERS}
    alone = _alone_ms(queries, chosen, wants, users, shared, standing)
    # Readers of open batches go by how far apart groups come.
    blocks_s = opening(queries, {query: chosen.interval_s[query] for query in chosen.open}).blocks_s
    written = replace(queries, blocks_s=blocks_s)
    needs = {}
    for query, names in users.items():
        without_s = chosen.priced_s(query, queries.costs[query])
        if not bearing[query].keys().isdisjoint(names):
            without_s = unlimited_s(written, query, chosen.interval_s)
        needs[query] = BatchNeeds(
            alone.get(query, {}), None if query in differing - shared else round(1000 * without_s))
    return needs


def _alone_ms(
    queries: Queries, chosen: BatchModes, wants: Mapping[str, Sequence[LimitOnWay]],
    users: Mapping[str, Collection[str]],
    shared: Collection[str], standing: StandingAnswers[Pacing] | None,
) -> dict[str, dict[str, int]]:
    """The intervals that batches of shared queries would have for each of their users alone, in ms."""
    alone: dict[str, dict[str, int]] = {query: {} for query in shared}
    for name in sorted({name for query in shared for name in users[query]}):
        needed = {query for query, names in users.items() if name in names}
        part = replace(queries, costs={query: queries.costs[query] for query in needed}, before_s={}, capacity={})
        choice = choose_modes(part, wants.get(name, []), dict.fromkeys(chosen.open, ""), standing=standing)
        for query in needed & alone.keys():
            cost = queries.costs[query]
            least_s = chosen.priced_s(query, cost) if query in chosen.open else 0.0
            alone[query][name] = round(1000 * max(least_s, choice.priced_s(query, cost)))
    return alone
