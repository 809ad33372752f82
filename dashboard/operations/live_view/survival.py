"""Losses of machines that are survived, by queries' reports on the copies of their state. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from dashboard.operations.live_view.document_fields import MovingCount
from dashboard.operations.live_view.query_states import NOT_HEARD
from scheduler.contracts.reports import QueryReport
from scheduler.elasticity.copies import Survival
from scheduler.model.latency_limits import figure_in_words


class CopyCost(TypedDict):
    """The cost of one more copy of the state of some queries: ``more_per_s`` (bytes of state sent a second) and
    ``more_in_broker`` (bytes while they are on their way), at most: as if all of the state changed between two copies.
    Null where the state of none is known."""

    more_per_s: MovingCount
    more_in_broker: MovingCount


class DataflowSurvival(CopyCost):
    """The losses at once that the state of a dataflow's queries survives, by the one that survives least, and the cost
    of one more copy.

    ``words``: a predicate, such as "survives the loss of any one machine"; ``copied``: how many of its ``queries``
    would go on elsewhere, null if no copies are asked for; ``copy_age_ms``: the age of the oldest batch that the oldest
    counted copy is missing, 0 if it has all, null without a copy.
    """

    words: str
    queries: int
    copied: int | None
    copy_age_ms: MovingCount


def survival_of(
    reports: Iterable[QueryReport], survives: Survival, *, copy_s: float, ages_ms: Iterable[int | None] = ()
) -> DataflowSurvival:
    """Losses that the queries of a dataflow survive, with copies so many seconds apart, of which some are so old."""
    listed = list(reports)
    return DataflowSurvival(
        words=least_in_words(listed, survives), queries=len(listed), copied=copied(listed),
        copy_age_ms=max((age for age in ages_ms if age is not None), default=None),
        **cost_of_one_more(listed, copy_s=copy_s))


def cost_of_one_more(reports: Iterable[QueryReport], *, copy_s: float) -> CopyCost:
    """The cost of one more copy of the state of these queries, with copies so many seconds apart."""
    # Of one that is not copied there would not be one more copy either.
    sizes = [report.state_kb * 1024 for report in reports
             if report.state_kb is not None and (report.survives or not report.not_copied)]
    return CopyCost(
        more_per_s=round(sum(sizes) / copy_s) if sizes else None, more_in_broker=sum(sizes) if sizes else None)


def estate_in_words(reports: Iterable[QueryReport], survives: Survival, *, nodes: int) -> str:
    """The losses that the queries of an estate with so many nodes survive; where none has a copy, why, and what to do
    where no copies are asked for. Commands and settings stand between back-ticks. Empty without queries."""
    listed = list(reports)
    if not listed:
        return ""
    count = copied(listed)
    if count:
        return f"The state of {count:,} of {len(listed):,} queries survives the loss of {survives}."
    words = f"The state of the estate's queries {least_in_words(listed, survives)}."
    is_asked_for = count is not None or all(report.state in NOT_HEARD for report in listed)
    if is_asked_for:
        return words
    first, start = ("", "Start") if nodes > 1 else ("A copy is on another machine: start an agent there first, by "
                                                    "`./weir agent`. ", "Then start")
    return f"{words} {first}{start} each agent with `WEIR_COPIES=1` to have one copy of each."


def least_in_words(reports: Iterable[QueryReport], survives: Survival) -> str:
    """The losses that these queries survive, behind a subject, and the reason where that is less than requested."""
    listed = list(reports)
    with_copies = [report for report in listed if report.survives is not None]
    least = min(with_copies, key=lambda report: report.survives or 0, default=None)
    if least is None and listed and all(report.state in NOT_HEARD for report in listed):
        return "is not known to survive the loss of a machine: nothing is heard of its queries"
    if least is None:
        return f"{Survival(0, ()).as_predicate()}: no copies of state are asked for"
    return _with_reason(survives.as_predicate(), least.not_copied, is_less=survives.machines > 0)


def oldest_in_words(survival: DataflowSurvival) -> str:
    """The age of the oldest copy that counts; empty where there is none."""
    age_ms = survival["copy_age_ms"]
    if not age_ms:
        return "" if age_ms is None else "The oldest copy has all that was done."
    return f"The oldest copy is {figure_in_words(age_ms / 1000)} old."


def more_in_words(cost: CopyCost) -> str:
    """The cost of one more copy; empty where that is not known."""
    if cost["more_per_s"] is None or cost["more_in_broker"] is None:
        return ""
    return (f"One more copy of the state sends {_size(cost['more_per_s'])} a second at most, and takes "
            f"{_size(cost['more_in_broker'])} of the broker's memory meanwhile.")


def _size(count: int) -> str:
    """A number of bytes, in kB or MB."""
    return f"{count / 1024:,.0f} kB" if count < 1 << 20 else f"{count / (1 << 20):,.1f} MB"


def survival_in_words(report: QueryReport, survives: Survival) -> str | None:
    """The losses that the state of a query survives, or the reason why none; None where no copies are asked for."""
    if report.survives is None:
        return None
    return _with_reason(str(survives), report.not_copied, is_less=survives.machines > 0)


def _with_reason(words: str, reason: str | None, *, is_less: bool) -> str:
    """The words on what a query survives, with the reason why that is less than asked for, or without."""
    return f"{words}{', fewer than asked for' if is_less else ''}: {reason}" if reason else words


def copied(reports: Iterable[QueryReport]) -> int | None:
    """The number of queries that go on elsewhere where their machine is lost; None where no copies are asked for."""
    survivals = [report.survives for report in reports if report.survives is not None]
    return sum(1 for survives in survivals if survives) if survivals else None


def if_lost_in_words(queries_copied: int | None, queries: int, survives: str | None = None) -> str:
    """The effect on so many queries of the loss of their machines, and the losses that those with copies survive; empty
    where no copies are asked for."""
    if queries_copied is None:
        return ""
    return f"{queries_copied} of {queries} queries go on elsewhere{f', at the loss of {survives}' if survives else ''}"
