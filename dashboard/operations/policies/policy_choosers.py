"""The policy sources that decide by themselves, as the recorder asks them: each under its source's name.

Another source is an entry here: a `scheduler.guards.policy_sources.AlternateChooser`, made anew where a process takes
its turn. It looks at what `scheduler.guards.switched_tasks.elements_of` gives for its source, and its switches go
through `dashboard.approvals.services.source_switches.propose_switches`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dashboard.operations.policies.guard_watches import GuardWatches
from scheduler.guards.policy_sources import RULES, AlternateChooser, WantedSwitch
from scheduler.history.series import Series
from scheduler.model.estate import Estate

CHOOSERS: Mapping[str, Callable[[], AlternateChooser]] = {RULES: GuardWatches}


class PolicyChoosers:
    """All of them, at each second, in the order of the registry."""

    def __init__(self, choosers: Mapping[str, Callable[[], AlternateChooser]] = CHOOSERS) -> None:
        self._choosers = [make() for make in choosers.values()]

    @property
    def are_there(self) -> bool:
        """True if any source decides about a task."""
        return any(chooser.are_there for chooser in self._choosers)

    def look(self, estate: Estate, values: Mapping[Series, float], now_s: int) -> list[WantedSwitch]:
        """The switches that the sources want."""
        return [wanted_switch for chooser in self._choosers for wanted_switch in chooser.look(estate, values, now_s)]

    def store(self) -> None:
        """Keep what another process needs to go on."""
        for chooser in self._choosers:
            chooser.store()
