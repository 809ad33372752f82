"""The policy of a dynamic element: by what its alternates are switched, apart from the dataflow's tasks.

What the document says is version 0. Another one replaces it while everything runs, by a plan of kind ``set``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..model.alternates import TaskAlternate
from ..model.canonical import plain
from ..model.dataflow import _frozen
from ..model.settings_of_fragments import FragmentSettings
from .guard_values import VALUE, GuardedAlternate, GuardedElement
from .policy_sources import POLICY_SOURCES, RULES


@dataclass(frozen=True, slots=True)
class ElementPolicy:
    """The policy by which an element's alternates are switched.

    Parameters
    ----------
    guards : mapping of str to str
        By alternate: its guard; an alternate that is left out has none.
    values : mapping of str to float or str
        By alternate: what it is worth, as a number or a value function; what is left out is worth what its document
        says.
    kind : str
        ``value`` or ``activation`` (`guard_values`).
    source : str
        The policy source that decides (`policy_sources`); guards and values are read by ``rules``, and by
        ``controllers``, which choose among what guards allow.
    streams : mapping of str to mapping
        The definitions of the streams that guards name, by the name that they use (`figure_streams`).
    calendars : str
        The short name of the team whose calendars it means; empty where it means none.
    """

    guards: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, float | str] = field(default_factory=dict)
    kind: str = VALUE
    source: str = RULES
    streams: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    calendars: str = ""

    def element(self, task: str, alternates: Iterable[TaskAlternate]) -> GuardedElement:
        """A dynamic task as guards see it."""
        return GuardedElement(task, tuple(
            GuardedAlternate(way.name, self.guards.get(way.name, ""), self.values.get(way.name, way.value))
            for way in alternates), self.kind)

    @property
    def decides(self) -> bool:
        """True if it ever switches: a source decides, and one that reads guards has some, or a value function."""
        return self.source != RULES or any(guard.strip() for guard in self.guards.values()) or any(
            isinstance(value, str) for value in self.values.values())

    @property
    def words(self) -> str:
        """The policy in a sentence, for those who review it."""
        if self.source != RULES:
            return POLICY_SOURCES[self.source].doc
        names = dict.fromkeys([*self.guards, *self.values])
        return "; ".join(
            f"{name} {f'while {guard}' if (guard := self.guards.get(name, '').strip()) else otherwise}"
            f"{f', worth {_worth(self.values[name])}' if name in self.values and self.kind == VALUE else ''}"
            for name in names for otherwise in ["always" if self.kind == VALUE else "otherwise"])

    def document(self) -> dict[str, Any]:
        """The policy as JSON, as it is stored and approved."""
        return {
            "kind": self.kind, "source": self.source, "guards": dict(self.guards), "values": dict(self.values),
            "streams": plain(self.streams), "calendars": self.calendars}


def policy_in(document: Mapping[str, Any]) -> ElementPolicy:
    """The policy of a stored document; what it lacks is as usual."""
    return ElementPolicy(
        _frozen(document.get("guards", {})), _frozen(document.get("values", {})), document.get("kind", VALUE),
        document.get("source", RULES),
        _frozen(document.get("streams", {})), document.get("calendars", ""))


def stated_policy(alternates: Iterable[TaskAlternate], kind: str = VALUE) -> ElementPolicy:
    """Version 0: the guards and values of the document."""
    stated = tuple(alternates)
    return ElementPolicy(
        {way.name: way.guard for way in stated if way.guard.strip()}, {way.name: way.value for way in stated},
        kind)


def policy_of(
    task: str, alternates: Iterable[TaskAlternate], settings: FragmentSettings, kind: str = VALUE
) -> ElementPolicy:
    """The policy of a running task that is in force: the one that was set, or that of its document."""
    chosen = settings.policies.get(task)
    return stated_policy(alternates, kind) if chosen is None else policy_in(chosen)


def _worth(value: float | str) -> str:
    """A value function as it stands, a number as pages have it."""
    return value if isinstance(value, str) else f"{value:.3g}"
