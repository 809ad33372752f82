"""Who pays for short intervals: the Shapley value of the airport game (Littlechild and Owen, 1973).

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
        What each user would need alone; not below 0.

    Returns
    -------
    dict
        By user; together the highest cost. Nobody pays more than alone, and a user who comes to need more raises no
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
