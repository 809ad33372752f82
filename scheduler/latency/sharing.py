"""The payers of short intervals: the Shapley value of the airport game (Littlechild and Owen, 1973).

A query runs as often as the strictest of its users needs. So a coalition costs what its strictest member does, as a
runway costs what its largest aeroplane needs. The Shapley value lets all users share what the least strict one needs,
and each further step only those who need it.
"""

from __future__ import annotations

from collections.abc import Mapping


def airport_shares(costs: Mapping[str, float]) -> dict[str, float]:
    """Divide the highest of the users' own costs among them.

    Parameters
    ----------
    costs : mapping of str to float
        The cost of each user alone; not below 0.

    Returns
    -------
    dict
        By user; together the highest cost. Nobody pays more than alone, and a user who needs more than before raises no
        other share.

    References
    ----------
    .. [1] Littlechild and Owen, "A Simple Expression for the Shapley Value in a Special Case", 1973.
    """
    order = sorted(costs, key=lambda user: (costs[user], user))
    shares: dict[str, float] = {}
    paid = before = 0.0
    for position, user in enumerate(order):
        paid += (costs[user] - before) / (len(order) - position)
        before = costs[user]
        shares[user] = paid
    return shares


def limit_shares(costs: Mapping[str, float], unlimited: float) -> dict[str, float]:
    """The part of each user's share in `airport_shares` that is for its limit.

    What all would cost if nobody had a limit is one game and what limits cost beyond that is another; their costs add
    up to those of the game that is divided, and so do their Shapley values.

    Parameters
    ----------
    unlimited : float
        The need of any of them without a limit, in the unit of ``costs``.

    Returns
    -------
    dict
        By user; together what the highest cost is above ``unlimited``. It is what the user's share would be less if it
        alone had no limit: nothing where it does not need more than ``unlimited``, and the same however much more
        others need.
    """
    return airport_shares({user: max(0.0, cost - unlimited) for user, cost in costs.items()})
