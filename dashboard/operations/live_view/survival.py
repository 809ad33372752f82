"""What survives the loss of machines, by what queries report of the copies of their state. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.contracts.reports import QueryReport
from scheduler.elasticity.copies import Survival


def survival_in_words(report: QueryReport) -> str | None:
    """How many machines' loss the state of a query survives, or why none; None where no copies are asked for."""
    if report.survives is None:
        return None
    words = str(Survival(report.survives, ()))
    return f"{words}: {report.not_copied}" if report.not_copied else words


def copied(reports: Iterable[QueryReport]) -> int | None:
    """How many queries go on elsewhere where their machine is lost; None where no copies are asked for."""
    known = [report.survives for report in reports if report.survives is not None]
    return sum(1 for survives in known if survives) if known else None


def if_lost_in_words(queries_copied: int | None, queries: int) -> str:
    """What becomes of so many queries when their machines are lost; empty where no copies are asked for."""
    return "" if queries_copied is None else f"{queries_copied} of {queries} queries go on elsewhere"
