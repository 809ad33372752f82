"""Kinds of rules: what can be watched, in which unit, and from where on it is wrong unless a team says otherwise.

A new kind is an entry here and a reader in ``dashboard/alerts/readers.py``; a test fails for a kind without one. Pages,
the API, documents and metrics follow from the entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .alert_values import CRITICAL, INFO, WARNING, AlertRule

Scope = Literal["team", "estate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleKind:
    """One kind of rule.

    Parameters
    ----------
    scope : str
        ``team`` where each team has it for its dataflows, and each dataflow may have its own; else ``estate``.
    unit : str
        Of its thresholds; empty where it watches a condition, without a threshold to choose.
    threshold, clear_threshold : float
        As ``alert_values.AlertRule``; without a unit, 1 stands for true.
    above : bool
        True if high values are wrong.
    every_s : int
        The interval of readings: longer for values that are dear to read and change slowly.
    on_request : bool
        True if it watches nothing until somebody turns it on.
    symptom_of : tuple of str
        Kinds whose alerts about a dataflow explain this kind's, which are then left out.
    by_cause : bool
        True if one alert covers all dataflows of a team that one cause concerns.
    marked : bool
        True if its alarms are written into the history; of findings the recorder writes them.
    """

    name: str
    title: str
    about: str
    scope: Scope = "team"
    unit: str = ""
    threshold: float = 1.0
    clear_threshold: float = 1.0
    for_s: int = 60
    clear_for_s: int = 60
    severity: str = WARNING
    above: bool = True
    every_s: int = 1
    on_request: bool = False
    symptom_of: tuple[str, ...] = ()
    by_cause: bool = False
    marked: bool = True

    def rule(self, scope: str, **chosen: float | int | str) -> AlertRule:
        """The rule of this kind for a scope: the default with the chosen values."""
        default = {
            "threshold": self.threshold, "clear_threshold": self.clear_threshold, "for_s": self.for_s,
            "clear_for_s": self.clear_for_s, "severity": self.severity}
        return AlertRule(id=f"{scope}/{self.name}", kind=self.name, above=self.above, **default | chosen)


LATENCY = RuleKind(
    name="latency", title="Latency", unit="ms", threshold=30_000, clear_threshold=25_000,
    symptom_of=("failing", "restarting", "backlog", "latency_limit"),
    about="The 99th percentile of the age of events when they reach a dataflow's sinks.")
LATENCY_LIMIT = RuleKind(
    name="latency_limit", title="Latency limit", for_s=120, clear_for_s=60, marked=False,
    symptom_of=("failing", "restarting", "backlog"),
    about="A dataflow's latency limit is missed, or no choice of intervals would meet it.")
BACKLOG = RuleKind(
    name="backlog", title="Backlog", unit="blocks", threshold=192, clear_threshold=96,
    symptom_of=("failing", "restarting"),
    about="Blocks that the broker holds for a reader of one stream; at 256 its writer waits.")
LATE_EVENTS = RuleKind(
    name="late_events", title="Late events", unit="events", threshold=100, clear_threshold=10, for_s=0, clear_for_s=300,
    about="How many events came too late for a task within ten minutes.")
SILENT_SOURCE = RuleKind(
    name="silent_source", title="Silent source", unit="s", threshold=600, clear_threshold=60, every_s=60,
    on_request=True, symptom_of=("failing", "restarting"),
    about="A source has made no events for so much longer than its longest pause in the last day. Off by default: a "
          "source may well be quiet.")
FAILING = RuleKind(
    name="failing", title="Failing", for_s=30, severity=CRITICAL, by_cause=True, marked=False,
    about="A query of a dataflow fails or hangs, its source cannot be read or its sink not be written, or its slot or "
          "node does not answer.")
EMERGENCY_STOP = RuleKind(
    name="emergency_stop", title="Emergency stop", for_s=0, clear_for_s=0, severity=CRITICAL, marked=False,
    about="Somebody paused a dataflow at once, without an approval.")
RESTARTING = RuleKind(
    name="restarting", title="Restarting", unit="restarts", threshold=3, clear_threshold=1, for_s=0, clear_for_s=300,
    symptom_of=("failing",),
    about="How often a query failed, or the driver that it runs in ended, and began again within ten minutes.")
DRIFT = RuleKind(
    name="drift", title="Drift", unit="%", threshold=30, clear_threshold=20, for_s=600, clear_for_s=600, severity=INFO,
    every_s=60, about="How far running tasks are from the profile that schedules are planned with.")
BROKEN_PROMISE = RuleKind(
    name="broken_promise", title="Broken promise", for_s=120, clear_for_s=300, every_s=60,
    symptom_of=("failing", "restarting", "backlog", "silent_source"),
    about="A schedule does not keep the rate, the latency or the slots that its plan promised.")
DISK = RuleKind(
    name="disk", title="Disk", scope="estate", unit="MB", threshold=1024, clear_threshold=2048, above=False,
    severity=CRITICAL, about="Free space of a data folder: a node's, or the site's own.")
UNREACHABLE = RuleKind(
    name="unreachable", title="Unreachable", scope="estate", for_s=15, clear_for_s=30, severity=CRITICAL, marked=False,
    about="A node does not report, a slot's driver does not answer, or the broker takes nothing in.")
TOO_FEW_SLOTS = RuleKind(
    name="too_few_slots", title="Too few slots", scope="estate", for_s=300, clear_for_s=300, every_s=60, marked=False,
    about="Slots are asked for more CPU than they should have, and no slot has room for what they have too much.")
TOO_FEW_COPIES = RuleKind(
    name="too_few_copies", title="Too few copies", scope="estate", for_s=300, clear_for_s=60, marked=False,
    about="Queries of a node have fewer copies of their state on other nodes than WEIR_COPIES asks for.")

_ALL = (
    LATENCY, LATENCY_LIMIT, BACKLOG, LATE_EVENTS, SILENT_SOURCE, FAILING, RESTARTING, DRIFT, BROKEN_PROMISE, DISK,
    UNREACHABLE, TOO_FEW_SLOTS, TOO_FEW_COPIES, EMERGENCY_STOP)
RULE_KINDS: Mapping[str, RuleKind] = {kind.name: kind for kind in _ALL}
