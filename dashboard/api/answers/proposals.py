"""Answers about proposals: their plans, differences and reviews."""

from __future__ import annotations

from typing import Any

from scheduler.model import plan

from .common import Answer, Error, User, answer_of
from .schedules import PromiseAnswer


class ProposalRow(Answer):
    """A proposal in a list; ``error`` says why it has no plan that stands, ``progress`` how far its execution is."""

    id: str
    kind: str
    status: str
    dataflow: str
    name: str
    team: str
    author: str
    chosen_by: str | None
    digest: str
    generation: int | None
    error: Error | None
    options: dict[str, Any]
    created: str
    progress: dict[str, Any]


Price = answer_of(plan.Price)


class BillChangeAnswer(Answer):
    """The change of a team's bill by a plan; ``is_own``: that of the other dataflows of the proposing team."""

    team: str
    money_per_hour_delta: float
    is_own: bool


class DifferenceTask(Answer):
    """A task before and after: ``started``, ``reused``, ``stopped``, or a ``neighbour``, an unchanged task of a touched
    dataflow. ``name``: its name in the submitted dataflow, of a neighbour in the first touched one; ``used_by``: other
    dataflows; ``on``: the alternate of a dynamic task that is on then, empty for others."""

    id: str
    name: str
    type: str
    kind: str
    config: dict[str, Any]
    status: str
    used_by: list[User]
    fragment: str | None
    slot: str | None
    on: str


class DifferenceStream(Answer):
    """A stream before and after."""

    source: str
    target: str
    status: str


class StepAnswer(Answer):
    """One step of the plan, in words, and whether it is in force."""

    key: str
    kind: str
    text: str
    done: bool


class RefinedAnswer(Answer):
    """A task that is made from a wider one that runs."""

    task: str
    wider: DifferenceTask
    stateful: bool
    equal_alternates: list[str]


class Counts(Answer):
    """The number of tasks that the plan starts, reuses, stops, resumes and rests."""

    started: int
    reused: int
    stopped: int
    resumed: int
    rested: int


class BundleSide(Answer):
    """A bundle before or after the plan."""

    slot: str
    threads: int
    weight: float


class BundleChange(Answer):
    """A bundle of a divided fragment before and after, null where it is not there. ``change`` is ``starts``, ``leaves``
    (it reads what it has, then stops), ``moves`` (another slot, or other threads), ``weighs`` (another part of the
    events), ``stops`` or ``stays``."""

    id: str
    fragment: str
    tasks: list[str]
    before: BundleSide | None
    after: BundleSide | None
    change: str


class JoinedTask(Answer):
    """A running task that the submission joins, and since when it runs (null where it starts fresh); ``rests`` where it
    is paused until then."""

    task: str
    type: str
    stateful: bool
    rests: bool
    since: str | None


class Joining(Answer):
    """The running work that the submission joins, and the price of the other choice. ``begin`` is ``now``, ``oldest``
    or an ISO 8601 time; ``tasks`` have run before it, so that their state, or that of their input, is older;
    ``streams`` says whether new fragments read streams that are there already."""

    fresh: bool
    begin: str
    tasks: list[JoinedTask]
    streams: bool
    price: Price | None
    otherwise: Price | None


class VersionChange(Answer):
    """Another version in place of the one that runs: which tasks of both keep their state, what is left to others, and
    what alternates of tasks of both have otherwise, in sentences by task."""

    number: int
    former: int
    with_state: list[str]
    left: list[str]
    alternates: dict[str, list[str]]


class PlanDifference(Answer):
    """The changes of a plan. ``touched`` are the first dataflows that it touches, ``touched_more`` how many there are
    besides, at least. ``why`` is of a plan that Weir makes, in words; ``notes`` are what reviewers should know besides.
    """

    kind: str
    generation: int
    digest: str
    tasks: list[DifferenceTask]
    streams: list[DifferenceStream]
    steps: list[StepAnswer]
    touched: list[User]
    touched_more: int
    refined: list[RefinedAnswer]
    price: Price | None
    counts: Counts
    why: str
    notes: list[str]
    bundles: list[BundleChange]
    promise: PromiseAnswer | None
    joining: Joining | None
    bill_changes: list[BillChangeAnswer]
    version: VersionChange | None


class ApprovalAnswer(Answer):
    """An approval for a team, and whether it counts for what the team demands."""

    reviewer: str
    comment: str
    at: str
    counts: bool
    lost_role: bool
    """Whether it does not because who gave it may approve for the team no more."""
    single_sign_on: bool
    """Whether the reviewer's name comes from the provider of single sign-on."""


class TeamReview(Answer):
    """A team that the plan concerns, how many approvals it demands (``needed``), of whom (``role``), who may speak for
    it, and its verdict: ``approve`` once its demand is met. ``reviewer``, ``comment`` and ``at`` are of the newest
    review; ``expires_at`` is when the first approval no longer counts. ``automatic``: it agreed beforehand, and ``why``
    says by what; ``rules`` is the version that it was asked by, null for the default."""

    slug: str
    name: str
    verdict: str | None
    approvers: list[str]
    """The user names of those whose approval counts."""
    reviewer: str
    comment: str
    at: str | None
    needed: int
    role: str
    automatic: bool
    why: str
    expires_at: str | None
    rules: int | None
    approvals: list[ApprovalAnswer]


class Held(Answer):
    """The reason why an approved plan is not enacted yet, and the end of that."""

    team: str
    reason: str
    until: str | None


class ReviewAnswer(Answer):
    """The state of the review, and the caller's permissions. ``held`` is of a plan that is approved and waits;
    ``outdated`` are tasks whose profiles are others by now than those that the plan was made from; ``why_not`` says why
    the caller may not approve, empty where there is nothing to say."""

    teams: list[TeamReview]
    held: Held | None
    outdated: list[str]
    may_approve: bool
    may_reject: bool
    may_cancel: bool
    may_recompute: bool
    may_roll_back: bool
    why_not: str


class ProposalDetail(ProposalRow):
    """A proposal with its difference (null until there is a plan) and its review."""

    difference: PlanDifference | None
    review: ReviewAnswer


class ParameterDifference(Answer):
    """A parameter that differs from a running task's."""

    task: str
    parameter: str
    submitted: Any
    running: Any
    text: str


class NearMissAnswer(Answer):
    """A change that would let the dataflow reuse more (``tasks``), and what that saves. ``why_beside`` says why a task
    that runs and is an alternate, or has it, is not read as it is."""

    key: str
    summary: str
    tasks: list[str]
    cores_saved: float
    money_per_hour_saved: float
    why_beside: str
    differences: list[ParameterDifference]


class NearMissOfText(NearMissAnswer):
    """The same, with the document changed."""

    text: str


class CommentAnswer(Answer):
    """A comment, as plain text."""

    id: int
    author: str
    text: str
    at: str
    edited: str | None
    may_edit: bool


class Thread(CommentAnswer):
    """A comment on a proposal, or on one of its tasks, with what was answered."""

    task: str
    resolved: str | None
    resolved_by: str
    may_resolve: bool
    replies: list[CommentAnswer]
