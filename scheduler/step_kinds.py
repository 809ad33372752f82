"""Kinds of steps: what each is called, when reports show it in force, what it starts, and which step takes it back.

A new kind is an entry here; whatever makes such a step refers to the entry by its constant, and all others ask a flag
of it. There is no default: a step of an unknown kind is an error, in a test and at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from .contracts.desired import made_in
from .contracts.reports import LEFT, RUNNING, STOPPED, QueryReport, Reports
from .model.fragment import Fragment, RunningBundle, node_of
from .model.plan import Plan, Step
from .model.ring import Ring
from .model.settings_of_fragments import USUAL, FragmentSettings


@dataclass(frozen=True, slots=True)
class EnactmentEvidence:
    """The state of the estate while a plan is enacted: reports by node, nodes and slots that are ``gone``, and the
    ``settings`` of fragments, and how many tasks work in each (``active``), as they are now: which may be others than
    the plan made them.

    A node or slot leaves the estate only when nothing is to run on it: steps that concern it alone are done. As long as
    a node that is ``awaited`` does not report, nobody knows by which weights is written there.
    """

    reports: Reports = field(default_factory=Reports)
    gone: Collection[str] = ()
    awaited: Collection[str] = ()
    settings: Mapping[str, FragmentSettings] = field(default_factory=dict)
    active: Mapping[str, int] = field(default_factory=dict)

    def is_gone(self, slot: str) -> bool:
        """True if a slot, or its node, is no longer in the estate."""
        return slot in self.gone or node_of(slot) in self.gone

    @property
    def all_heard(self) -> bool:
        """True if every node that is awaited reports."""
        return set(self.awaited) <= set(self.reports)


@dataclass(frozen=True, slots=True)
class QueryEvidence:
    """The state of one query that a step concerns; ``query`` is None where its slot does not mention it."""

    step: Step
    fragment: Fragment
    bundle: RunningBundle
    query: QueryReport | None
    reports: Reports
    gone: Collection[str] = ()

    @property
    def runs(self) -> bool:
        return self.query is not None and self.query.state == RUNNING

    @property
    def publishes(self) -> bool:
        """True if the stream that the step is about goes to its reader."""
        if self.query is None:
            return False
        position = self.fragment.tasks.index(self.step.task or "")
        return self.step.reader in (*self.query.outlets.get(position, ()), *self.query.routes.get(position, {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepKind:
    """One kind of step.

    Parameters
    ----------
    words : str
        The step in words: a format of what `dashboard.approvals.wording` knows of it.
    reverse : str
        The kind of the step that takes it back.
    rank : int
        Steps of lower rank come first where the order of a plan's steps follows from their kinds.
    is_done : callable
        Whether the evidence shows the step to be in force, given the fragment that it concerns.
    starts_query : bool
        True if it starts a query, or restarts one: that may fail before it has run.
    unnoticed : bool
        Teams that share what it changes notice nothing of it.
    interrupts : bool
        Something that runs stands meanwhile: its query hands over, or restarts.
    hands_over : bool
        A query goes on with the work of others.
    begins : bool
        True if it starts something new: nothing goes on in it.
    divides_streams : bool
        Whoever writes for the fragment divides its events anew.
    of_policy : bool
        By what a task is switched becomes another: no query is told.
    """

    name: str
    words: str
    reverse: str
    rank: int
    is_done: Callable[[Step, Fragment, EnactmentEvidence], bool]
    starts_query: bool = False
    unnoticed: bool = False
    of_bundles: bool = False
    interrupts: bool = False
    hands_over: bool = False
    begins: bool = False
    divides_streams: bool = False
    of_policy: bool = False


def _every_query(
    is_done: Callable[[QueryEvidence], bool], *, leaving: bool = False
) -> Callable[[Step, Fragment, EnactmentEvidence], bool]:
    """Done where it is done for each bundle that the step concerns; for ``leaving`` ones only where that is asked."""
    def of_fragment(step: Step, fragment: Fragment, evidence: EnactmentEvidence) -> bool:
        bundles = [bundle for bundle in fragment.queries if step.bundle in (None, bundle.id)]
        if step.bundle is None and not leaving:
            bundles = [bundle for bundle in bundles if not bundle.leaving]
        return bool(bundles) and all(of_bundle(step, fragment, bundle, evidence) for bundle in bundles)

    def of_bundle(step: Step, fragment: Fragment, bundle: RunningBundle, evidence: EnactmentEvidence) -> bool:
        if evidence.is_gone(bundle.slot):
            return True
        slot = evidence.reports.slot(bundle.slot)
        if slot is None or slot.state != RUNNING:  # what a slot does not mention is gone only if it reports at all
            return False
        return is_done(QueryEvidence(
            step, fragment, bundle, slot.fragments.get(bundle.id), evidence.reports, evidence.gone))

    return of_fragment


def _has_taken_over(evidence: QueryEvidence) -> bool:
    node = evidence.reports.node(node_of(evidence.bundle.slot))
    inherits, _ = evidence.fragment.inherited_by(evidence.bundle)
    work_on = {bundle.id for bundle in evidence.fragment.bundles if not bundle.leaving}  # they gave keys away
    ancestors_run = node is not None and any(
        ancestor in slot.fragments and slot.fragments[ancestor].state != LEFT
        for slot in node.slots.values() for ancestor in inherits if ancestor not in work_on)
    has_begun = _is_kept(evidence) if evidence.fragment.paused else evidence.runs
    return has_begun and not ancestors_run and _has_left_its_node(evidence)


def _is_kept(evidence: QueryEvidence) -> bool:
    """True if a paused query is on its slot, with what it has."""
    return evidence.query is not None and evidence.query.state == STOPPED


def _has_left_its_node(evidence: QueryEvidence) -> bool:
    """True if the node that has what a query goes on with has nothing more to do for it, where that is another."""
    inherits, home = evidence.fragment.inherited_by(evidence.bundle)
    if not home or home in evidence.gone:
        return True
    origin = evidence.reports.node(home)
    if origin is None or origin.version < made_in(evidence.bundle.id):
        return False
    names_at_origin = {*origin.handing_over, *(name for slot in origin.slots.values() for name in slot.fragments)}
    return not names_at_origin.intersection(inherits)


def _runs_with_its_threads(evidence: QueryEvidence) -> bool:
    return evidence.runs and evidence.query is not None and evidence.query.threads == evidence.bundle.threads


def _is_at_rest(evidence: QueryEvidence) -> bool:
    return evidence.query is None or evidence.query.state == STOPPED


def _has_left(evidence: QueryEvidence) -> bool:
    return evidence.query is None or evidence.query.state == LEFT


def _tail_is_closed(evidence: QueryEvidence) -> bool:
    # A later plan may have closed more of it.
    return evidence.query is not None and evidence.query.active <= (evidence.step.active or 0)


def _tail_is_open(evidence: QueryEvidence) -> bool:
    return evidence.query is not None and evidence.query.active >= (evidence.step.active or 0)


def _is_routed(step: Step, fragment: Fragment, evidence: EnactmentEvidence) -> bool:
    """True if all who write for a divided fragment divide their streams by its weights, or by its keys."""
    weights = {bundle.part: bundle.weight for bundle in fragment.queries}
    by_key = fragment.divided_by_key
    routes = [
        readers[fragment.id] for _, query in evidence.reports.queries() if query.state != LEFT
        for readers in query.routes.values() if fragment.id in readers]
    return evidence.all_heard and bool(routes) and all(
        route == (fragment.ring(route.by, ahead_ms=route.ahead_ms) if by_key and isinstance(route, Ring) else weights)
        for route in routes)


def _is_set(step: Step, fragment: Fragment, evidence: EnactmentEvidence) -> bool:
    """True if the queries run as they are set now: where the setting was replaced since, nothing more is to come."""
    wanted_real_time = evidence.settings.get(step.fragment, USUAL).real_time
    return _every_query(
        lambda of_query: of_query.runs and of_query.query is not None and of_query.query.real_time == wanted_real_time
    )(step, fragment, evidence)


def _is_switched(step: Step, fragment: Fragment, evidence: EnactmentEvidence) -> bool:
    """True if the queries were told of the alternate that is on now, which may be another than the plan's."""
    wanted_alternate = evidence.settings.get(step.fragment, USUAL).alternates.get(step.task or "")
    if wanted_alternate is None:  # the task goes on in another query
        return True
    position = fragment.tasks.index(step.task or "")
    return _every_query(
        lambda of_query: of_query.query is not None and of_query.query.alternates.get(position) == wanted_alternate
    )(step, fragment, evidence)


CLOSE_OUTLET = StepKind(
    name="close_outlet", words="Stop publishing the stream of {task} to {reader}",
    reverse="open_outlet", rank=0, unnoticed=True,
    is_done=_every_query(lambda of_query: of_query.query is not None and not of_query.publishes))
CLOSE_TAIL = StepKind(
    name="close_tail", words="Continue with {active} of {active_before} tasks of {tasks}",
    reverse="open_tail", rank=1, is_done=_every_query(_tail_is_closed), unnoticed=True)
STOP_FRAGMENT = StepKind(
    name="stop_fragment", words="Stop {tasks} on {slot}",
    reverse="start_fragment", rank=2, unnoticed=True,
    is_done=_every_query(lambda of_query: of_query.query is None, leaving=True))
PAUSE_FRAGMENT = StepKind(
    name="pause_fragment", words="Pause {tasks} on {slot}; its state is kept",
    reverse="resume_fragment", rank=2, is_done=_every_query(_is_at_rest), unnoticed=True)
HAND_OVER = StepKind(
    name="hand_over", words="Hand {tasks} over to one query on {slot}",
    reverse="hand_over", rank=3, is_done=_every_query(_has_taken_over), starts_query=True, interrupts=True,
    hands_over=True)
START_FRAGMENT = StepKind(
    name="start_fragment", words="Start {tasks} on {queries}",
    reverse="stop_fragment", rank=4, is_done=_every_query(lambda of_query: of_query.runs), starts_query=True,
    begins=True)
RESUME_FRAGMENT = StepKind(
    name="resume_fragment", words="Resume {active} tasks of {tasks} on {slot}",
    reverse="pause_fragment", rank=4, is_done=_every_query(lambda of_query: of_query.runs), starts_query=True,
    unnoticed=True)
START_BUNDLE = StepKind(
    name="start_bundle", words="Start {threads} of {task} on {place}",
    reverse="leave_bundle", rank=5, is_done=_every_query(_runs_with_its_threads), starts_query=True, of_bundles=True,
    begins=True)
MOVE_BUNDLE = StepKind(
    name="move_bundle",
    words="Restart {task} where it left off: {threads} on {place} (before: {threads_before} on "
          "{place_before})",
    reverse="move_bundle", rank=6, is_done=_every_query(_runs_with_its_threads), starts_query=True, of_bundles=True,
    interrupts=True)
HAND_OVER_BUNDLE = StepKind(
    name="hand_over_bundle",
    words="Hand {task} over: {threads} on {place} (before: {threads_before} on "
          "{place_before})",
    reverse="hand_over_bundle", rank=6, is_done=_every_query(_has_taken_over), starts_query=True, of_bundles=True,
    interrupts=True, hands_over=True)
TAKE_KEYS = StepKind(
    name="take_keys", words="Let {place} continue with its keys of {task}, and their state",
    reverse="take_keys", rank=6, is_done=_every_query(_has_taken_over), starts_query=True, of_bundles=True,
    interrupts=True, hands_over=True)
SET_FRAGMENT = StepKind(
    name="set", words="Set {tasks} on {slot}: {setting}",
    reverse="set", rank=6, is_done=_is_set, starts_query=True, interrupts=True)
SWITCH = StepKind(
    name="switch", words="Switch {task} to its alternate {setting}, from the next batch on",
    reverse="switch", rank=6, is_done=_is_switched)
SWITCH_KEY = StepKind(
    name="switch_key", words="Switch {task} to its alternate {alternate} for {of_key}",
    reverse="switch_key", rank=6, is_done=lambda step, fragment, evidence: True)
POLICY = StepKind(
    name="policy", words="{task} is switched by another policy: {setting}",
    reverse="policy", rank=6, is_done=lambda step, fragment, evidence: True, of_policy=True)
OPEN_TAIL = StepKind(
    name="open_tail", words="Work on {active} tasks of {tasks} again",
    reverse="close_tail", rank=7, is_done=_every_query(_tail_is_open), unnoticed=True)
OPEN_OUTLET = StepKind(
    name="open_outlet", words="Publish the stream of {task} to {reader}",
    reverse="close_outlet", rank=8, is_done=_every_query(lambda of_query: of_query.publishes), unnoticed=True)
ROUTE = StepKind(
    name="route", words="Divide the events of {task} anew: {weights}",
    reverse="route", rank=9, is_done=_is_routed, of_bundles=True, divides_streams=True)
LEAVE_BUNDLE = StepKind(
    name="leave_bundle",
    words="Give {task} on {place} no more events; it finishes its waiting events, then stops",
    reverse="start_bundle", rank=10, is_done=_every_query(_has_left), of_bundles=True)

STEP_KINDS: Mapping[str, StepKind] = {
    kind.name: kind for kind in (
        CLOSE_OUTLET, CLOSE_TAIL, STOP_FRAGMENT, PAUSE_FRAGMENT, HAND_OVER, START_FRAGMENT, RESUME_FRAGMENT,
        START_BUNDLE, MOVE_BUNDLE, HAND_OVER_BUNDLE, TAKE_KEYS, SET_FRAGMENT, SWITCH, SWITCH_KEY, POLICY, OPEN_TAIL,
        OPEN_OUTLET, ROUTE, LEAVE_BUNDLE)}


def kind_of(step: Step) -> StepKind:
    """The kind of a step; ``KeyError`` for one that the registry does not have."""
    return STEP_KINDS[step.kind]


def in_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Steps by the ranks of their kinds; those of one rank stay in their order."""
    return tuple(sorted(steps, key=lambda step: kind_of(step).rank))


def steps_done(plan: Plan, evidence: EnactmentEvidence) -> set[str]:
    """Keys of the plan's steps that the evidence shows to be in force, or of which nothing more is to come because a
    later plan has put to rest what they begin.
    """
    fragments = {**plan.fragments_before, **plan.fragments_after}
    return {
        step.key for step in plan.steps
        if step.fragment in fragments and (
            kind_of(step).is_done(step, fragments[step.fragment], evidence) or _rests_since(step, plan, evidence))}


def _rests_since(step: Step, plan: Plan, evidence: EnactmentEvidence) -> bool:
    """True if a later plan has put to rest what a step begins, or whom it begins it for."""
    fragment_after, active = plan.fragments_after.get(step.fragment), evidence.active
    if fragment_after is None or step.fragment not in active:  # it is to stop
        return False
    if active[step.fragment] == 0 < fragment_after.active:
        return True
    if step.kind == OPEN_TAIL.name:
        return (step.active or 0) > active[step.fragment]
    return step.kind == OPEN_OUTLET.name and active.get(step.reader or "") == 0
