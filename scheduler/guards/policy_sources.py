"""Policy sources: who may set which alternate of a dynamic element is on. Rules, people, models and controllers are
four of a kind, and go through one door: a plan of kind ``set`` (`dashboard.approvals.services.source_switches`).

A source that decides by itself is an `AlternateChooser`, which the site registers under its source's name
(`policy_choosers`) and asks once a second. The policy of an element says which source decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..history.series import Series
from ..model.estate import Estate

RULES, PEOPLE, MODELS, CONTROLLERS = "rules", "people", "models", "controllers"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySource:
    """A source.

    Parameters
    ----------
    holds : bool
        True if its choice stays for a stated time, whatever other sources want.
    """

    name: str
    doc: str
    holds: bool = False


POLICY_SOURCES: Mapping[str, PolicySource] = {
    source.name: source for source in (
        PolicySource(name=RULES, doc="the guards of its policy"),
        PolicySource(name=PEOPLE, doc="people, by hand", holds=True),
        PolicySource(name=MODELS, doc="a model that has learned"),
        PolicySource(name=CONTROLLERS, doc="a controller, among what guards allow"))}


@dataclass(frozen=True, slots=True)
class WantedSwitch:
    """A source wants another alternate of a running task than the one that is set, and why; or it has ``warmed`` up."""

    task: str
    alternate: str
    because: str
    source: str = RULES
    warmed: bool = False


class AlternateChooser(Protocol):
    """A source that decides by itself: it looks once a second, and stores what another process needs to go on."""

    @property
    def are_there(self) -> bool:
        """True if it decides about any task: else nobody has to look each second."""
        ...

    def look(self, estate: Estate, values: Mapping[Series, float], now_s: int) -> Sequence[WantedSwitch]:
        """Take in the values of a second; what is wanted otherwise than it is set, of elements whose policies name this
        source."""
        ...

    def store(self) -> None:
        """Keep what is needed to go on; called every few seconds."""
        ...
