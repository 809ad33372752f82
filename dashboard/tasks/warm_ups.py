"""The end of warming up: once an alternate has worked beside the one that is on for its time, it is switched on.

For how long it has is what queries noted of it, in the broker: so whichever process looks, it ends at the same moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dashboard import jobs
from scheduler.contracts.switches import warming_since_ms
from scheduler.guards.policy_sources import WantedSwitch
from scheduler.history.series import Series
from scheduler.model.estate import Estate
from scheduler.model.warm_up import warm_s, warming_of


class WarmUps:
    """Ends warm-ups at each ``look``; there is nothing to store."""

    def __init__(self) -> None:
        self.are_there = False

    def look(self, estate: Estate, values: Mapping[Series, float], now_s: int) -> Sequence[WantedSwitch]:
        """The switches to alternates that have warmed up, whatever source wanted them."""
        warming = {
            task_id: name for settings in estate.settings.values() for task_id, text in settings.alternates.items()
            if (name := warming_of(text)) and task_id in estate.places}
        self.are_there = bool(warming)
        if not warming:
            return ()
        try:
            switches = jobs.switches_of(warming)
        except jobs.BrokerAway:  # it warms up for longer
            return ()
        wanted_switches = []
        for task_id, name in warming.items():
            task = estate.tasks[task_id]
            for_s = warm_s(task.type, task.config)
            queries = {query.id for query in estate.fragments[estate.places[task_id][0]].queries}
            since_ms = warming_since_ms(switches[task_id], queries, name)
            if since_ms is not None and now_s * 1000 - since_ms >= for_s * 1000:
                wanted_switches.append(WantedSwitch(task_id, name, f"it has warmed up for {for_s:g} s", warmed=True))
        return wanted_switches

    def store(self) -> None:
        """Store nothing: what it needs is in the broker."""
