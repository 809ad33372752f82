"""Warnings about a profile that is planned with: stale, drifted, rough, or measured while the machine was busy.

- ``warnings_about(profiles, team=…)``: what there is to say of each of them
- ``warning_notes(tasks)``: the same of tasks, said once where several of a type have one warning
- ``machine_warnings(schedule)``: the nodes that are another class of machine than its profiles were measured on
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dashboard.operations.live_view.nodes import current_machine
from dashboard.operations.models import NodeRow
from dashboard.profiles.estimates import is_estimate, why_estimated
from dashboard.profiles.models import ProfileRecord, TrialRecord
from dashboard.profiles.selectors import records_for, staleness
from dashboard.profiles.stored_profiles import profile_of
from dashboard.profiles.sweep_progress import disturbance
from scheduler.model.profile import Profile, counted_threads
from scheduler.performance.declared import WITHOUT_TRIALS
from scheduler.scheduling import Schedule

Kind = Literal["estimated", "stale", "drifted", "rough", "busy"]
SAID: Mapping[Kind, str] = {
    "estimated": "is an estimate", "stale": "is stale", "drifted": "has drifted", "rough": "is rough",
    "busy": "was measured on a busy machine"}
NAMED = 5  # tasks in a remark


@dataclass(frozen=True, slots=True)
class ProfileWarning:
    """The reason why a profile may not hold, as the rest of a sentence."""

    kind: Kind
    why: str


@dataclass(frozen=True, slots=True)
class WarningNote:
    """A warning about the profiles of some tasks of one type; ``of_all`` where these are all its tasks."""

    task_type: str
    tasks: tuple[str, ...]
    of_all: bool
    warning: ProfileWarning

    @property
    def head(self) -> str:
        """The note, without its reason."""
        whose = "" if self.of_all else f" for {_named(self.tasks)}"
        return f"The profile of {self.task_type}{whose} {SAID[self.warning.kind]}"

    @property
    def text(self) -> str:
        """All of it, as a sentence."""
        return f"{self.head}: {self.warning.why}."


def warnings_about(profiles: Iterable[Profile], *, team: str = "") -> dict[Profile, tuple[ProfileWarning, ...]]:
    """The warnings about each of these profiles; nothing of what a type declares.

    Parameters
    ----------
    profiles : iterable of Profile
        As `selectors.profiles_for` gave them.
    """
    measured = {profile for profile in profiles if profile.origin not in WITHOUT_TRIALS}
    if not measured:
        return {}
    guesses = {profile: (ProfileWarning("estimated", why_estimated(profile)),) for profile in measured
               if is_estimate(profile)}
    measured -= set(guesses)
    records = records_for({profile.task_type for profile in measured}, team=team)
    stored = {record: profile for record in records if (profile := profile_of(record)) in measured}
    busy, machine = _busy(stored), current_machine()
    warnings = {profile: dict.fromkeys(_of_age(profile, machine)) for profile in measured}
    for record, profile in stored.items():
        warnings[profile] |= dict.fromkeys(_of_record(record, busy.get(record.pk)))
    return guesses | {profile: tuple(of_profile) for profile, of_profile in warnings.items()}


def warning_notes(tasks: Iterable[tuple[str, str, Iterable[ProfileWarning]]]) -> list[WarningNote]:
    """The notes on tasks, given by id, type and warnings: by type, then in the order of the tasks.

    Not that they are estimates, which is said of all together (`estimates.estimates_remark`).
    """
    of_type: dict[str, list[str]] = {}
    grouped: dict[tuple[str, ProfileWarning], list[str]] = {}
    for task, name, task_warnings in tasks:
        of_type.setdefault(name, []).append(task)
        for warning in task_warnings:
            if warning.kind == "estimated":
                continue
            grouped.setdefault((name, warning), []).append(task)
    return [
        WarningNote(name, tuple(names), len(names) == len(of_type[name]), warning)
        for (name, warning), names in sorted(grouped.items(), key=lambda item: item[0][0])]


def machine_warnings(schedule: Schedule) -> list[str]:
    """The notes of a plan on nodes of another class of machine than the one that the profiles were measured on.

    Only nodes of another class than most slots are noted: a profile of another class than these is stale.
    """
    tasks_on: dict[str, dict[str, None]] = {}
    for task, counts in schedule.placement.counts.items():
        for position in counts:
            tasks_on.setdefault(schedule.placement.slots[position].node, {})[task] = None
    here = current_machine()
    others = NodeRow.objects.filter(name__in=tasks_on).exclude(machine__in=["", here]).order_by("name")
    remarks = []
    for node, machine in others.values_list("name", "machine"):
        measured = {task: schedule.job.profiles[task].machine for task in tasks_on[node]}
        if strange := [task for task, on in measured.items() if on not in ("", machine)]:
            classes = " and ".join(sorted({measured[task] for task in strange}))
            remarks.append(
                f"{node} is another class of machine ({machine}) than {_named(strange)} "
                f"{'were' if len(strange) > 1 else 'was'} measured on ({classes}): predictions for bundles there "
                "may not hold.")
    return remarks


def _named(tasks: Sequence[str]) -> str:
    more = len(tasks) - NAMED
    return ", ".join(tasks[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _of_age(profile: Profile, machine: str) -> Iterator[ProfileWarning]:
    if reason := staleness(profile, machine=machine):
        yield ProfileWarning("stale", reason)


def _of_record(record: ProfileRecord, disturbed: Mapping[str, float] | None) -> Iterator[ProfileWarning]:
    """The evidence of its running bundles and its own trials against it."""
    if drifts := [_drift(drift) for drift in record.drifts if drift["beyond"]]:
        yield ProfileWarning("drifted", f"running bundles {'; they '.join(drifts)}")
    if record.rough:
        yield ProfileWarning("rough", (
            f"the peak of {counted_threads(record.rough)} is less sure than was asked for, because time ended first or "
            "a lower rate was never stable"))
    if disturbed is not None:
        yield ProfileWarning("busy", (
            f"a load of {disturbed['load']:.1f} on {disturbed['cores']} cores meanwhile"
            + (f", and {disturbed['stolen']:.0%} of the CPU went elsewhere" if disturbed["stolen"] > 0.01 else "")
            + ", so that a slot may well sustain more"))


def _drift(drift: Mapping[str, Any]) -> str:
    threads = f"with {drift['threads']} thread{'s' if drift['threads'] > 1 else ''}"
    if drift["what"] == "rate":
        return f"show a peak of {drift['observed']:.4g} events/s {threads}, where it says {drift['expected']:.4g}"
    of = "CPU" if drift["what"] == "cpu" else "memory"
    return f"take {drift['observed']:.0%} of a slot's {of} {threads}, where it says {drift['expected']:.0%}"


def _busy(records: Iterable[ProfileRecord]) -> dict[Any, dict[str, float]]:
    """The disturbance of the trials of each of these profiles by other work, of those where it was."""
    machines: dict[Any, list[Mapping[str, Any]]] = {}
    rows = TrialRecord.objects.filter(sweep__profile__in=list(records), set_aside=False).order_by("sweep_id", "number")
    for profile_id, machine in rows.values_list("sweep__profile_id", "machine"):
        machines.setdefault(profile_id, []).append(machine)
    disturbances = {profile_id: disturbance(node_machines) for profile_id, node_machines in machines.items()}
    return {profile_id: disturbed for profile_id, disturbed in disturbances.items() if disturbed is not None}
