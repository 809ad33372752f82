"""Who pays for shared work: equal shares of every running task, the Shapley value of the game of its users.

The players are submitted dataflows; a coalition costs what the running tasks cost that at least one of its members
needs. Each task is a game of its own in which its users are alike and everybody else adds nothing, and the Shapley
value is additive over games: so each user's value is the task's cost divided by the number of its users.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from scheduler.model.amounts import Amounts, share_out


@dataclass(frozen=True, slots=True)
class Bill:
    """What a dataflow pays, and what the same tasks would cost it if nobody else needed them."""

    pays: int
    alone: int

    @property
    def saved(self) -> int:
        return self.alone - self.pays


@dataclass(frozen=True, slots=True)
class Need:
    """A dataflow needs a running task from one moment until another, or still does."""

    dataflow: str
    since_ms: int
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BillShare:
    """A dataflow's part in a running task over a time in which its users stayed the same.

    ``dataflow`` is None where nobody needed the task; ``alone`` is what the part would be without other users.
    """

    dataflow: str | None
    since_ms: int
    until_ms: int
    users: int
    pays: Amounts
    alone: Amounts


def bills(costs: Mapping[str, int], needs: Mapping[str, Collection[str]]) -> dict[str, Bill]:
    """Divide the costs of running tasks among the dataflows that need them.

    Parameters
    ----------
    costs : mapping
        Running task id to its cost, in the smallest unit of money.
    needs : mapping
        Dataflow id to the ids of the running tasks that it needs.

    Returns
    -------
    dict
        A bill for each dataflow. They add up to the cost of all tasks that anybody needs, to the unit: what an equal
        division leaves over goes to the first of a task's users, a unit each. No bill is above what the dataflow would
        pay alone, and one more user of any task raises no other bill.

    References
    ----------
    .. [1] Shapley, "A Value for n-Person Games", 1953.
    .. [2] Littlechild and Owen, "A Simple Expression for the Shapley Value in a Special Case", 1973.
    """
    users: dict[str, list[str]] = {}
    for dataflow in sorted(needs):
        for task in dict.fromkeys(needs[dataflow]):
            users.setdefault(task, []).append(dataflow)
    pays = dict.fromkeys(needs, 0)
    for task, dataflows in users.items():
        for dataflow, share in zip(dataflows, share_out(costs[task], [1] * len(dataflows)), strict=True):
            pays[dataflow] += share
    alone = {dataflow: sum(costs[task] for task in set(tasks)) for dataflow, tasks in needs.items()}
    return {dataflow: Bill(pays=pays[dataflow], alone=alone[dataflow]) for dataflow in needs}


def divide(
    used: Amounts, needs: Iterable[Need], *, since_ms: int, until_ms: int, every_ms: int
) -> tuple[BillShare, ...]:
    """Divide what a running task used over a time among those who needed it, moment by moment.

    Parameters
    ----------
    used : Amounts
        By the task, between the two moments; evenly spread over them.
    needs : iterable of Need
        Who needed the task when.
    since_ms, until_ms : int
        The two moments, the later one after the earlier one.
    every_ms : int
        No part reaches over a multiple of this.

    Returns
    -------
    tuple of BillShare
        In order of time. What they pay adds up to ``used``.
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
        shares = amounts.share_out([1] * len(users)) if users else ()
        parts += [replace(whole, dataflow=user, pays=share) for user, share in zip(users, shares, strict=True)] or [
            whole]
    return tuple(parts)
