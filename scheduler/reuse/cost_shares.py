"""The payers of shared work: equal shares of every running task, the Shapley value of the game of its users.

The players are submitted dataflows; a coalition costs what the running tasks cost that at least one of its members
needs. Each task is a game of its own in which its users are alike and everybody else adds nothing, and the Shapley
value is additive over games: so each user's value is the task's cost divided by the number of its users. What batches
take is another game where users need them differently often, and a part of that is for limits
(`scheduler.latency.sharing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from scheduler.latency.sharing import airport_shares, limit_shares
from scheduler.model.amounts import Amounts, share_out

PARTS = 1_000_000
NOTHING = Amounts()


@dataclass(frozen=True, slots=True)
class Need:
    """A dataflow needs a running task from one moment until another, or still does."""

    dataflow: str
    since_ms: int
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BillShare:
    """A dataflow's part in a running task over a time in which its users stayed the same.

    ``dataflow``: None if nobody needed the task; ``alone``: the part without other users; ``batches``: what it pays for
    batches, whatever was in them; ``for_limit``: the share of that for its latency limits, in CPU and money, None if it
    is unknown how often users need batches.
    """

    dataflow: str | None
    since_ms: int
    until_ms: int
    users: int
    pays: Amounts
    alone: Amounts
    batches: Amounts = NOTHING
    for_limit: Amounts | None = None


@dataclass(frozen=True, slots=True)
class BatchPart:
    """The part of a running task's CPU that batches took whatever was in them, from 0 to 1; and how far apart batches
    would be for each user of its query alone, in ms, and without a limit of any of them."""

    share: float
    interval_ms: Mapping[str, int]
    unlimited_ms: int | None = None

    def of_batches(self, users: Sequence[str]) -> tuple[float, ...]:
        """The shares of users in the cost of batches: by the airport game.

        Evenly where of one of them it is not known how often it needs a batch.
        """
        if len(users) < 2 or any(not self.interval_ms.get(user) for user in users):
            return (1 / len(users),) * len(users)
        shares = airport_shares({user: 1 / self.interval_ms[user] for user in users})
        whole = sum(shares.values())
        return tuple(shares[user] / whole for user in users)

    def for_limits(self, users: Sequence[str]) -> tuple[float, ...] | None:
        """The part of that for each user's limits; None where it is not known how often they need batches.

        What users of the query ask for who do not need the task is for no limit of those who pay it.
        """
        if not self.unlimited_ms or any(not self.interval_ms.get(user) for user in users):
            return None
        shares = limit_shares({user: 1 / self.interval_ms[user] for user in users}, 1 / self.unlimited_ms)
        strictest_ms = min(filter(None, self.interval_ms.values()))
        return tuple(shares[user] * strictest_ms for user in users)

    def alone(self, users: Sequence[str], share: float) -> tuple[int, ...]:
        """The shares that users would pay without the others, in parts of `PARTS`: their batches might be further
        apart."""
        if len(users) < 2 or any(not self.interval_ms.get(user) for user in users):
            return (PARTS,) * len(users)
        strictest_ms = min(self.interval_ms[user] for user in users)
        return tuple(round(PARTS * (1 - share + share * strictest_ms / self.interval_ms[user])) for user in users)


def divide(
    used: Amounts, needs: Iterable[Need], *, since_ms: int, until_ms: int, every_ms: int,
    batches: BatchPart | None = None, cpu_part_of_cost: float = 1.0,
) -> tuple[BillShare, ...]:
    """Divide what a running task used over a time among those who needed it, moment by moment.

    Parameters
    ----------
    used : Amounts
        By the task, between the two moments; evenly spread over them.
    needs : iterable of Need
        The times in which each user needed the task.
    since_ms, until_ms : int
        The two moments, the later one after the earlier one.
    batches : BatchPart, optional
        The part of batches in it, and their users; without it all is divided evenly, and nothing is said of batches.
    cpu_part_of_cost : float, optional
        The part of its cost that is for CPU, from 0 to 1: what else it cost is divided evenly.

    Returns
    -------
    tuple of BillShare
        In order of time. The shares add up to ``used`` exactly: units that do not divide evenly go to the first users,
        one each. Another user raises nobody's share.

    References
    ----------
    .. [1] Shapley, "A Value for n-Person Games", 1953.
    .. [2] Littlechild and Owen, "A Simple Expression for the Shapley Value in a Special Case", 1973.
    """
    needs = [need for need in needs if need.since_ms < until_ms and (need.until_ms is None or need.until_ms > since_ms)]
    moments = {since_ms, until_ms, *range(since_ms - since_ms % every_ms + every_ms, until_ms, every_ms)}
    for need in needs:
        moments |= {moment for moment in (need.since_ms, need.until_ms) if moment and since_ms < moment < until_ms}
    cuts = sorted(moments)
    times = list(pairwise(cuts))
    parts: list[BillShare] = []
    for (begin, end), amounts in zip(times, used.share_out([end - begin for begin, end in times]), strict=True):
        users = sorted({
            need.dataflow for need in needs
            if need.since_ms <= begin and (need.until_ms is None or need.until_ms >= end)
        })
        whole = BillShare(None, begin, end, len(users), pays=amounts, alone=amounts)
        parts += _shared_out(whole, users, batches, cpu_part_of_cost) or [whole]
    return tuple(parts)


def _shared_out(
    whole: BillShare, users: Sequence[str], batches: BatchPart | None, cpu_part_of_cost: float
) -> list[BillShare]:
    """The shares of some users in the cost of a time."""
    if not users:
        return []
    if batches is None:
        return [replace(whole, dataflow=user, pays=share)
                for user, share in zip(users, whole.pays.share_out([1] * len(users)), strict=True)]
    # CPU and what it costs follow batches; memory, traffic and disk, and what these cost, do not.
    work, even = whole.pays, whole.pays.share_out([1] * len(users))
    of_cpu, of_cost, of_batches = batches.share, batches.share * cpu_part_of_cost, batches.of_batches(users)
    pays = [replace(even_share, cpu_us=cpu_us, cost_nanos=cost_nanos) for even_share, cpu_us, cost_nanos in zip(
        even, share_out(work.cpu_us, _weights(of_batches, of_cpu)),
        share_out(work.cost_nanos, _weights(of_batches, of_cost)), strict=True)]
    alone = [replace(work, cpu_us=_of(work.cpu_us, cpu), cost_nanos=_of(work.cost_nanos, cost)) for cpu, cost in zip(
        batches.alone(users, of_cpu), batches.alone(users, of_cost), strict=True)]
    took = (work.cpu_us * of_cpu, work.cost_nanos * of_cost)
    paid = [_part_of(took, part, paying) for part, paying in zip(of_batches, pays, strict=True)]
    limits = batches.for_limits(users)
    for_limit = [None] * len(users) if limits is None else [
        _part_of(took, part, paying) for part, paying in zip(limits, paid, strict=True)]
    return [
        BillShare(user, whole.since_ms, whole.until_ms, len(users), *amounts)
        for user, *amounts in zip(users, pays, alone, paid, for_limit, strict=True)]


def _weights(of_batches: Sequence[float], share: float) -> list[int]:
    """The share of each user, in parts of `PARTS` for all: of that share, batches, as given, and the rest evenly."""
    return [round(PARTS * ((1 - share) / len(of_batches) + share * part)) for part in of_batches]


def _of(amount: int, parts: int) -> int:
    return share_out(amount, [parts, PARTS - parts])[0]


def _part_of(took: tuple[float, float], part: float, bound: Amounts) -> Amounts:
    """A part of the CPU and of the cost of batches, rounded down, so that parts are together no more than these."""
    return Amounts(
        cpu_us=min(int(took[0] * part), bound.cpu_us), cost_nanos=min(int(took[1] * part), bound.cost_nanos))
