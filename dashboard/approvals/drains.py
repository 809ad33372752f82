"""The queries on a drained node: which goes next and where, which cannot go, and what holds the others.

- ``outgoing_of(estate, node, at=…)``: by query, what `services.draining` decides by
- ``drain_of(name, viewer)``: the same, as far as the viewer may know of it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.utils import timezone

from dashboard.approvals.lifecycle import COMPUTING, FAILED, PENDING, ROLLED_BACK, ROLLING_BACK, STALE, UNPLANNABLE
from dashboard.approvals.models import Proposal
from dashboard.approvals.selectors import proposals
from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.estate_store.offered_slots import offered_slots, silent_nodes
from dashboard.operations.live_view.drained_nodes import queries_of_node, queries_there
from dashboard.operations.live_view.estate_view import WITHHELD, view_for
from dashboard.operations.live_view.going_on import copy_holders
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.operations.models import NodeRow
from dashboard.operations.services import node_row
from dashboard.plans.selectors import plan_of
from dashboard.teams.permissions import Viewer
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle, node_of
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import PLAN_KINDS
from scheduler.model.tenancy import is_open_to

FROM_COPY = "from_copy"  # in the options of a move off a node that is lost
OTHERS = "others"  # likewise: further queries of lost nodes, by id the slot where each goes on
BUNDLES = "bundles"  # likewise: the fragment of those of them that are bundles
ATTEMPT = "attempt"  # in the options of a move, which of several it is
# From the first attempt that failed: a plan that could not be made costs little, and a move that was taken
# back has kept all other plans waiting for a minute.
NO_PLAN_S, MOST_NO_PLAN_S = 10, 600
TAKEN_BACK_S, MOST_TAKEN_BACK_S = 60, 3600


@dataclass(frozen=True, slots=True)
class Hold:
    """An obstacle to a query that can go: in a sentence, with the proposal that it is about, what only those may read
    who know of that (``detail``), and when Weir tries again by itself."""

    why: str
    proposal: Proposal | None = None
    detail: str = ""
    again_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The state of one query on a drained node: it cannot go (``why_not``), something holds it, or it goes to ``slot``
    next.

    ``record`` is the dataflow that asks for its move, ``again`` a proposal of Weir's own that is planned anew for it,
    ``attempt`` which attempt that is.
    """

    fragment: Fragment
    bundle: RunningBundle
    why_not: str = ""
    hold: Hold | None = None
    record: DataflowRecord | None = None
    slot: str = ""
    again: Proposal | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class QueryThere:
    """A query on a node: its id, slot, types of tasks, why it cannot go to another node (empty where it can), and what
    holds it now: in words, the proposal that it is about, and when it is tried again."""

    id: str
    slot: str
    name: str
    why_not: str
    held: str = ""
    proposal: str | None = None
    again_at: datetime | None = None

    @property
    def again_ms(self) -> int | None:
        """The time of the next attempt, in ms since the epoch."""
        return None if self.again_at is None else int(self.again_at.timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class Drain:
    """The queries on a node, and whether it is drained. Whoever may not know of a query sees that it is there alone.

    ``leaving`` counts what has another place by now and that the node still has to do with: it ends it, hands it over,
    or has not heard of it yet. None while nothing is heard of the node. One that ``is_empty`` can be stopped.
    """

    node: str
    draining: bool
    queries: tuple[QueryThere, ...] = ()
    others: int = 0
    leaving: int | None = None

    @property
    def staying(self) -> tuple[QueryThere, ...]:
        """The queries that cannot go."""
        return tuple(query for query in self.queries if query.why_not)

    @property
    def waiting(self) -> tuple[QueryThere, ...]:
        """The queries that something holds."""
        return tuple(query for query in self.queries if query.held)

    @property
    def is_empty(self) -> bool:
        """True if its agent can be stopped, and nothing notices."""
        return not self.queries and not self.others and self.leaving == 0


def is_of_a_drain(proposal: Proposal) -> bool:
    """True if Weir made a move by itself to empty a node."""
    return proposal.author_id is None and proposal.round_id is None and PLAN_KINDS[proposal.plan.kind].relocates


def pause_s(attempts: int, *, first_s: int, most_s: int) -> int:
    """The wait after so many failed attempts: each time twice as long."""
    return min(first_s << min(attempts - 1, 20), most_s)


def outgoing_of(estate: Estate, node: str, *, at: datetime) -> list[Outgoing]:
    """The state of each query on a drained node."""
    is_silent = silent_nodes().filter(name=node).exists()
    holders = copy_holders(queries_of_node(estate, node)) if is_silent else {}
    queries = queries_there(estate, node, copied=holders)
    drained_node = _Seen(
        estate, node, [fragment for fragment, _, _ in queries], at, is_silent=is_silent, holders=holders)
    return [drained_node.outgoing(fragment, bundle, why_not) for fragment, bundle, why_not in queries]


class _Seen:
    """The proposals and dataflows that count for the queries of a node."""

    def __init__(
        self, estate: Estate, node: str, fragments: Sequence[Fragment], at: datetime, *, is_silent: bool,
        holders: Mapping[str, str],
    ) -> None:
        self._estate, self._node, self._now = estate, node, at
        users = list({user for fragment in fragments for user in self._users(fragment)})
        self._records = DataflowRecord.objects.select_related("team").in_bulk(users)
        moves = Proposal.objects.relocating().select_related("plan", "rollback_plan", "dataflow__team")
        self._open = list(moves.open().filter(dataflow__in=users).order_by("created"))
        by_weir = moves.filter(author=None, round=None)
        self._first = by_weir.filter(status__in=[COMPUTING, PENDING], held=None).first()
        since = NodeRow.objects.filter(name=node).values_list("draining_since", flat=True).first() or at
        self._taken_back = [
            (plan_of(proposal.plan), proposal) for proposal in by_weir.filter(
                dataflow__in=users, status=ROLLED_BACK, finished_at__gte=since).order_by("finished_at")]
        self._under_way = Proposal.objects.under_way().select_related("plan").order_by("approved_at").first()
        self._queries = {bundle.id for fragment in estate.fragments.values() for bundle in fragment.queries}
        self._is_silent, self._holders = is_silent, holders
        self._query_counts: Counter[str] = Counter()  # by slot: of the queries that go on from copies by one plan

    def _users(self, fragment: Fragment) -> set[str]:
        return {user for task in fragment.kept_tasks for user in self._estate.users[task]}

    def outgoing(self, fragment: Fragment, bundle: RunningBundle, why_not: str) -> Outgoing:
        """The state of one of them."""
        if why_not:
            return Outgoing(fragment, bundle, why_not=why_not)
        holder = self._holders.get(bundle.id)
        # What is paused goes on from a copy, and rests there: its node is lost.
        statuses = (dataflows.RUNNING, *((dataflows.PAUSED,) if holder else ()))
        running = sorted((
            record for user in sorted(self._users(fragment))
            if (record := self._records.get(UUID(user))) is not None and record.status in statuses),
            key=lambda record: statuses.index(record.status))
        moves = [proposal for proposal in self._open if bundle.id in _queries(proposal)]
        drain_proposal = next((
            proposal for proposal in moves if is_of_a_drain(proposal) and proposal.dataflow in running), None)
        tried = [proposal for plan, proposal in self._taken_back
                 if _has_part(plan, proposal.plan.options["query"], fragment, bundle)]
        slot = self._target(
            fragment, holder, besides={node_of(proposal.plan.options["slot"]) for proposal in tried})
        is_away = self._is_silent and holder is None
        hold = (
            self._held_by_what_is(running, moves, slot, is_away=is_away) or self._backs_off(drain_proposal, tried)
            or self._waits_its_turn())
        if hold is not None:
            return Outgoing(fragment, bundle, hold=hold)
        last_proposal = drain_proposal or next((  # of a query that is there no more
            proposal for proposal in self._open if is_of_a_drain(proposal) and proposal.dataflow in running
            and proposal.status in {STALE, UNPLANNABLE}
            and _queries(proposal).isdisjoint(self._queries)), None)
        return Outgoing(
            fragment, bundle, record=last_proposal.dataflow if last_proposal else running[0], slot=slot,
            again=last_proposal,
            attempt=1 if drain_proposal is None else drain_proposal.plan.options.get(ATTEMPT, 1) + 1)

    def _target(self, fragment: Fragment, holder: str | None, *, besides: Collection[str]) -> str:
        """The slot of another node that has least to do, where there is one of a node on which it was not tried yet; of
        the node that holds a copy of its state, where it goes on from that."""
        offered = offered_slots().exclude(node=self._node) if holder is None else offered_slots().filter(node=holder)
        slots = offered.order_by("task_nanocores", "queries", "node_id", "index")
        names = [
            name for name in slots.values_list("name", flat=True)
            if not self._estate.teams_apart or is_open_to(fragment.team, self._estate.teams.get(name, ()))]
        if holder is not None:
            names.sort(key=self._query_counts.__getitem__)
            self._query_counts.update(names[:1])
        return next((name for name in names if node_of(name) not in besides), names[0] if names else "")

    def _held_by_what_is(
        self, running: Sequence[DataflowRecord], moves: Sequence[Proposal], slot: str, *, is_away: bool
    ) -> Hold | None:
        """The obstacle that holds whatever was tried."""
        if is_away:
            return Hold(f"{self._node} does not report: its queries can be handed over once its agent answers.")
        if not running:
            return Hold("None of its dataflows is running: it moves once one is.")
        for proposal in moves:
            if proposal.held:
                return Hold(
                    "Its move waits for the end of a freeze, or for a window.", proposal, proposal.held["reason"])
            if not is_of_a_drain(proposal):
                return Hold("A proposal to move it is open: decide it, or take it back.", proposal)
            if proposal.status in {COMPUTING, PENDING}:
                return Hold("Its move is being planned.", proposal)
        if slot:
            return None
        return Hold(
            "No other node has a slot that is empty or its team's own." if self._estate.teams_apart else
            "No other node has a slot that is free to use.")

    def _backs_off(self, proposal: Proposal | None, tried: Sequence[Proposal]) -> Hold | None:
        """The failed attempt, until the next one."""
        if proposal is not None:
            again_at = proposal.plan.created + timedelta(seconds=pause_s(
                proposal.plan.options.get(ATTEMPT, 1), first_s=NO_PLAN_S, most_s=MOST_NO_PLAN_S))
            if self._now < again_at:
                reason = (proposal.plan.error or {}).get("message", "The estate has changed since it was planned.")
                return Hold("No plan of its move stands.", proposal, reason, again_at)
        if tried:
            last = tried[-1]
            again_at = last.finished_at + timedelta(seconds=pause_s(
                len(tried), first_s=TAKEN_BACK_S, most_s=MOST_TAKEN_BACK_S))
            if self._now < again_at:
                return Hold(
                    f"Its move to {last.plan.options['slot']} did not finish, and was rolled back.", last,
                    last.rollback_plan.options.get("why", ""), again_at)
        return None

    def _waits_its_turn(self) -> Hold | None:
        """Another plan that is being enacted, or another query that goes first."""
        first = self._under_way
        if first is None:
            return None if self._first is None else Hold("Another query goes first.", self._first)
        if first.status == FAILED:
            return Hold(
                "A plan cannot finish, and others wait for it." + (
                    " Weir rolls it back." if is_of_a_drain(first) else " Roll it back, or mend its cause."),
                first, cause_of_failure(first))
        doing = "rolled back" if first.status == ROLLING_BACK else "enacted"
        return Hold(f"Another plan is being {doing}: this query goes after it.", first)


def cause_of_failure(proposal: Proposal) -> str:
    """The reason why a plan does not end, as nodes report it, but for what one team alone may read: drains are told to
    all."""
    query, failure = next(iter(proposal.progress.get("failing", {}).items()), ("", {"cause": ""}))
    return WITHHELD if query and view_for(EVERYTHING).team_of_errors(query) else failure["cause"]


def _has_part(plan: Plan, query: str, fragment: Fragment, bundle: RunningBundle) -> bool:
    """True if a query of a plan's beginning was what a query is now: all of these tasks, or the same part of them."""
    return any(
        before.tasks == fragment.tasks and (not fragment.divided or former_query.part == bundle.part)
        for before in plan.fragments_before.values() for former_query in before.queries if former_query.id == query)


def _queries(proposal: Proposal) -> set[str]:
    options = proposal.plan.options
    return {options["query"], *options.get("along", ()), *options.get(OTHERS, {})}


def drain_of(name: str, viewer: Viewer = EVERYTHING) -> Drain:
    """The queries on a node: what goes, what stays, and what holds it."""
    row, estate = node_row(name), current_estate()
    report = view_for(EVERYTHING).reading.reports.node(name)
    visible_ids = {fragment.id for fragment in view_for(viewer).fragments()}
    draining = row.draining_since is not None
    everything = outgoing_of(estate, name, at=timezone.now()) if draining else [
        Outgoing(fragment, bundle, why_not=why_not) for fragment, bundle, why_not in queries_there(estate, name)]
    visible = {proposal.pk for proposal in proposals(viewer).filter(
        pk__in=[outgoing.hold.proposal.pk for outgoing in everything if outgoing.hold and outgoing.hold.proposal])}
    queries = tuple(
        _query_there(estate, outgoing, visible) for outgoing in everything if outgoing.fragment.id in visible_ids)
    leaving = {outgoing.bundle.id for outgoing in everything}
    return Drain(
        name, draining, queries, len(everything) - len(queries),
        None if report is None else len(
            {*report.handing_over, *(query for slot in report.slots.values() for query in slot.fragments)} - leaving))


def _query_there(estate: Estate, outgoing: Outgoing, visible: Collection[UUID]) -> QueryThere:
    hold, fragment, bundle = outgoing.hold or Hold(""), outgoing.fragment, outgoing.bundle
    is_known = hold.proposal is not None and hold.proposal.pk in visible
    name = " → ".join(estate.tasks[task].type for task in fragment.kept_tasks if task in estate.tasks)
    detail = f"{hold.why} {hold.detail}" if is_known and hold.detail else hold.why
    return QueryThere(
        bundle.id, bundle.slot, name, outgoing.why_not, held=detail,
        proposal=str(hold.proposal.pk) if is_known else None, again_at=hold.again_at)
