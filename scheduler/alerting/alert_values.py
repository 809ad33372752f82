"""Values of alerting: rules, what is read for them, and how far an alert is."""

from __future__ import annotations

from dataclasses import dataclass

CRITICAL, WARNING, INFO = "critical", "warning", "info"
SEVERITIES = (CRITICAL, WARNING, INFO)  # the worst first
PENDING, FIRING, RESOLVED = "pending", "firing", "resolved"


@dataclass(frozen=True, slots=True, order=True)
class Element:
    """A watched element: one dataflow, stream, query, source, profile, node, slot, …, by its kind and id."""

    kind: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """A rule as it stands for one scope.

    Parameters
    ----------
    id : str
        ``<scope>/<kind>``; a scope is ``estate``, ``team:<short name>`` or ``dataflow:<id>``.
    kind : str
        A name of ``rule_kinds.RULE_KINDS``.
    threshold, clear_threshold : float
        From where on something is wrong, and from where on it is well again, in the kind's unit. Between the two
        nothing changes.
    for_s, clear_for_s : int
        For so many seconds without a break it has to be wrong before it fires, and well before it is resolved.
    severity : str
        One of ``SEVERITIES``.
    above : bool
        True if high values are wrong; else low ones are.
    """

    id: str
    kind: str
    threshold: float
    clear_threshold: float
    for_s: int
    clear_for_s: int
    severity: str
    above: bool = True

    def is_wrong(self, value: float) -> bool:
        """True if a value is at the threshold or beyond it."""
        return value >= self.threshold if self.above else value <= self.threshold

    def is_well(self, value: float) -> bool:
        """True if a value is on the good side of the threshold at which an alert clears."""
        wrong_side = value >= self.clear_threshold if self.above else value <= self.clear_threshold
        return not wrong_side and not self.is_wrong(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertReading:
    """A value that was read of one element (None: unknown now), and the text about it for people.

    ``cause``: alerts with the same one share a notice; ``dataflow``: the id of a dataflow that it concerns; ``name``:
    the dataflow's name, if one alert may be about several (`causes.one_for_each_cause`); ``concerned``: the ids of all
    dataflows of such an alert.
    """

    value: float | None
    cause: str
    text: str = ""
    remedy: str = ""
    dataflow: str = ""
    name: str = ""
    concerned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AlertState:
    """The state of the alert of one rule and element; all times in seconds since the epoch.

    ``since_s`` is when it began to be wrong, ``calm_s`` since when a firing one reads well, None where it does not.
    """

    since_s: int
    phase: str = PENDING
    calm_s: int | None = None


Watched = tuple[str, Element]  # a rule's id and what it watches


def alert_key(watched: Watched, since_s: int) -> str:
    """The name of an alert among all that ever were: the same, whoever evaluates the round and however often."""
    rule_id, element = watched
    return f"{rule_id}|{element.kind}|{element.id}|{since_s}"
