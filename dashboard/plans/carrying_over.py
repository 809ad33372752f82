"""The validity of a plan while the estate changes: its read set is unchanged, or a plan that is made anew does the
same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dashboard.operations.estate_store.estate_reader import StoredEstate
from dashboard.operations.estate_store.sibling_rows import StoredSiblings
from dashboard.plans.computing import plan_and_reads
from dashboard.plans.models import PlanRecord
from dashboard.plans.price_settings import prices
from dashboard.plans.selectors import plan_of
from scheduler import read_set
from scheduler.model.errors import StalePlan, WeirError
from scheduler.model.plan import Plan
from scheduler.performance.pricing import query_cores
from scheduler.read_set import Answers, ChangedRead, Reads
from scheduler.rebasing import rebase
from scheduler.replanning import may_be_made_anew, standing_for

NAMED = 3  # of what has changed, in a sentence


class PlanCarrier:
    """Compares waiting plans with the present estate; what several of them look up is read once.

    Parameters
    ----------
    generation : int
        The estate's. The caller, who stores the results, throws them away if it has changed by then.
    """

    def __init__(self, generation: int, records: Sequence[PlanRecord]) -> None:
        self._estate = StoredEstate(generation)
        self._reads = {record.pk: Reads.from_json(record.reads) for record in records if record.reads}
        self._answers = Answers(self._estate, StoredSiblings(), list(self._reads.values()))

    def leaves_standing(self, record: PlanRecord) -> bool:
        """True if nothing has changed that a plan was made from: nothing has to be done before it is taken in."""
        return record.pk in self._reads and self._answers.leave_standing(self._reads[record.pk])

    def carried_over(self, record: PlanRecord) -> tuple[Plan, Reads | None]:
        """The same plan for the estate as it is now; or one that does the same, with what it was made from.

        Raises
        ------
        StalePlan
            Something that it was made from has changed, and with it what it would do: which, in words.
        NoSlots
            There is no slot any more for what it starts.
        AlteredPlan
            What is stored of it is not what was frozen.
        """
        if record.pk not in self._reads:
            raise StalePlan("It was made by an earlier version of Weir.", remedy="Recompute it, then review anew.")
        reads = self._reads[record.pk]
        changes = self._answers.changes(reads)
        plan = plan_of(record)
        assert plan is not None  # it is before its reviewers
        if not changes:
            return rebase(plan, self._estate, query_cores=query_cores(prices())), None
        anew = self._made_anew(record, plan, reads)
        if anew is None:
            names = {running: task for task, running in plan.dataflow.running.items()}
            raise StalePlan(
                "What it was made from has changed: " + what_changed(changes, names),
                remedy="Recompute it, then review the new plan.")
        return anew

    def _made_anew(self, record: PlanRecord, plan: Plan, reads: Reads) -> tuple[Plan, Reads] | None:
        """The plan that is made now, with its look-ups, where it stands for the plan that was reviewed."""
        if not may_be_made_anew(plan):
            return None
        try:
            now, now_reads = plan_and_reads(record, self._estate)
        except WeirError:
            return None  # there is no such plan any more
        standing = standing_for(plan, now, paying_before=reads.paying, paying_now=now_reads.paying)
        return None if standing is None else (standing, now_reads)


def what_changed(changes: Sequence[ChangedRead], names: Mapping[str, str]) -> str:
    """The first part of the estate that has changed, as the end of a sentence; the dataflow's tasks by their names.

    Tasks and queries that the dataflow has no part in are named by their kind alone.
    """
    first = [change for change in changes if change.part == changes[0].part]
    tasks = sorted({names[change.key] for change in first if change.key in names})
    named = f" ({', '.join(tasks[:NAMED])}{' and others' if len(tasks) > NAMED else ''})" if tasks else ""
    if first[0].part == read_set.TASKS and first[0].new:
        return f"a task that it would start already runs{named}."
    return {
        read_set.SUBMITTED: "its dataflow was changed by another plan.",
        read_set.TASKS: f"a task that it counts on no longer runs{named}.",
        read_set.PLACES: f"a task that it counts on now runs in another query{named}.",
        read_set.FRAGMENTS: "a query that it reads or changes has changed.",
        read_set.USERS: f"other dataflows have started or stopped sharing its tasks{named}.",
        read_set.DIVIDED: "another schedule has taken slots that it uses.",
        read_set.SIBLINGS: "the wider tasks that its own can be made from have changed.",
        read_set.SLOTS: f"a slot that it counts on has other work ({first[0].key}).",
    }[first[0].part]
