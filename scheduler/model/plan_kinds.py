"""Kinds of plans: what each is called, what it does to its dataflow's entry, what it needs, and how it is undone.

A new kind is an entry here, a planner in ``scheduler``, a module of the site's kinds
(``dashboard.plans.site_plan_kinds``), which says how the site computes it, and a service that proposes it. A test fails
for a kind that lacks a part, for a module that spells the name of a kind, and for one that names the constant of a kind
that is not its own: others ask a flag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# The dataflow's entry in the estate: it comes, goes, is paused or resumed, is written anew, gives way to that of
# another version, or stays as it is.
EntryChange = Literal["added", "removed", "turned", "renewed", "replaced", "kept"]
# A plan is undone by planning its opposite from the estate as it is now, or from the plan itself.
Undo = Literal["by_opposite", "from_plan"]


UNDISTURBED = "None of its queries restarts."


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanKind:
    """One kind of plan.

    Parameters
    ----------
    name : str
        In stored plans, in the API and in addresses.
    verb, noun, notice : str
        A button or a title ("Pause"), the proposal by name ("Resumption"), and what is said when it is proposed.
    starts, stops, goes_on : str
        The outcome for the tasks that begin to work, cease to work, and work before and after it.
    entry : EntryChange
        The outcome for the dataflow's entry in the estate.
    undone_by : str
        The kind of the plan that takes it back.
    moves_queries : bool
        True if it changes queries that run, those of other dataflows too: no other plan may be under way.
    needs_no_handover : bool
        No other plan may be handing tasks over: what it rests could not take over.
    relocates : bool
        True if it takes queries to other slots, and does nothing else.
    takes_schedule : bool
        True if it may be asked for by a schedule that somebody chose.
    schedules : bool
        True if it says by what schedule its dataflow runs from then on (by none after a removal).
    only_own : bool
        True if it adds nothing to the estate: other teams review it only where they would notice.
    has_version : bool
        True if it brings another version of the dataflow's document, which counts from then on.
    undoable_when_done : bool
        True if it can be taken back also after it is done.
    """

    name: str
    verb: str
    noun: str
    notice: str
    entry: EntryChange
    undone_by: str
    undo: Undo = "by_opposite"
    starts: str = "starts"
    stops: str = "stops"
    goes_on: str = "goes on for others"
    pause: str = UNDISTURBED
    moves_queries: bool = False
    needs_no_handover: bool = False
    relocates: bool = False
    fuses: bool = False
    rests: bool = False
    takes_schedule: bool = False
    schedules: bool = False
    only_own: bool = False
    has_document: bool = False
    has_version: bool = False
    undoable_when_done: bool = False

    @property
    def takes_out(self) -> bool:
        """True if its dataflow leaves the estate: taken back, it brings the dataflow in anew."""
        return self.entry == "removed"

    @property
    def go_on(self) -> str:
        """``goes_on`` of several tasks."""
        return self.goes_on.replace("goes on", "go on", 1)

    @property
    def joins(self) -> bool:
        """True if it starts tasks of a document, which join what is under way as somebody chooses."""
        return self.has_document or self.has_version


SUBMIT = PlanKind(
    name="submit", verb="Run", noun="Proposal", notice="The dataflow is submitted; its plan is being computed.",
    entry="added", undone_by="remove", goes_on="reused", schedules=True, takes_schedule=True,
    has_document=True)
REMOVE = PlanKind(
    name="remove", verb="Remove", noun="Removal",
    notice="The removal is proposed. Nothing stops until the proposal is approved.",
    entry="removed", undone_by="submit", schedules=True, only_own=True)
PAUSE = PlanKind(
    name="pause", verb="Pause", noun="Pause",
    notice="The pause is proposed. The dataflow runs until the proposal is approved.",
    entry="turned", undone_by="resume", stops="rests", needs_no_handover=True, rests=True, only_own=True)
RESUME = PlanKind(
    name="resume", verb="Resume", noun="Resumption",
    notice="The resumption is proposed. The dataflow stays paused until the proposal is approved.",
    entry="turned", undone_by="pause", starts="goes on", needs_no_handover=True, only_own=True)
DEFRAGMENT = PlanKind(
    name="defragment", verb="Defragment", noun="Defragmentation",
    notice="Weir is looking for the best step. Nothing changes until the proposal is approved.",
    entry="kept", undone_by="defragment", undo="from_plan", goes_on="goes on",
    pause="It pauses for a few seconds; no event is lost.", moves_queries=True, fuses=True, undoable_when_done=True)
SCHEDULE = PlanKind(
    name="schedule", verb="Schedule", noun="Schedule",
    notice="The schedule is proposed. Nothing changes until the proposal is approved.",
    entry="renewed", undone_by="schedule", undo="from_plan", goes_on="goes on",
    pause="Shared tasks may pause for a few seconds; no event is lost.", moves_queries=True, schedules=True,
    takes_schedule=True, undoable_when_done=True)

ISOLATE = PlanKind(
    name="isolate", verb="Isolate", noun="Isolation",
    notice="Weir cuts a slow task out of a query that others need.",
    entry="kept", undone_by="isolate", undo="from_plan", goes_on="goes on",
    pause="It pauses for a few seconds; no event is lost.", moves_queries=True, undoable_when_done=True)

MOVE = PlanKind(
    name="move", verb="Move", noun="Move",
    notice="The move is proposed. The query stays where it is until the proposal is approved.",
    entry="kept", undone_by="move", undo="from_plan", goes_on="goes on",
    pause="It stands still for a batch and a moment, or for some seconds where it goes to another node; no event is "
          "lost.",
    moves_queries=True, relocates=True, undoable_when_done=True)

SET = PlanKind(
    name="set", verb="Set", noun="Setting",
    notice="Other settings are proposed. Nothing changes until the proposal is approved.",
    entry="kept", undone_by="set", undo="from_plan", goes_on="goes on",
    pause="It restarts where it left off, which takes a few seconds; no event is lost.",
    moves_queries=True, undoable_when_done=True)

CHANGE = PlanKind(
    name="change", verb="Change", noun="New version",
    notice="The new version is proposed. The one that runs goes on until the proposal is approved.",
    entry="replaced", undone_by="change", goes_on="goes on", schedules=True, has_version=True)

PLAN_KINDS: Mapping[str, PlanKind] = {
    kind.name: kind for kind in (SUBMIT, REMOVE, PAUSE, RESUME, DEFRAGMENT, SCHEDULE, ISOLATE, MOVE, SET, CHANGE)}


def names_where(flag: str) -> tuple[str, ...]:
    """The names of the kinds for which a flag of theirs is set, in the registry's order."""
    return tuple(name for name, kind in PLAN_KINDS.items() if getattr(kind, flag))
