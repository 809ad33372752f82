"""Findings as pages list them, and the pages of what they are of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.urls import reverse

from dashboard.operations.live_view.recording import subject_of_part
from scheduler.history.series import NODE, QUERY, SLOT, TASK

NAMED = frozenset({"slot", "node", "disk", "package", "dataflow"})  # parts that people call by the name of a finding


def finding_rows(findings: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Findings as `parts/findings.html` lists them: the fields of each, and the page of where its cause is."""
    return [
        {**row, "url": url_of_part(row["part"], row["name"]), "is_named": row["part"] in NAMED,
         "since": moment_of(row["since_ms"])}
        for row in findings]


def url_of_part(part: str, name: str) -> str:
    """The page of a finding's part: of an alert its place in the inbox. Empty where it has none of its own."""
    return f"{reverse('alerts')}#alert-{name}" if part == "alert" else element_url(*subject_of_part(part, name))


def slot_url(name: str) -> str:
    """The page of a slot."""
    node_name, _, index = name.rpartition("/")
    return reverse("slot", args=[node_name, int(index)])


def element_url(kind: str, subject: str) -> str:
    """The page of what history knows something by; empty where it has none of its own."""
    if not subject:
        return ""
    if kind == SLOT:
        return slot_url(subject)
    name = {QUERY: "query", TASK: "running_task", NODE: "node", "dataflow": "dataflow"}.get(kind)
    return reverse(name, args=[subject]) if name else ""


def moment_of(at_ms: int | None) -> datetime | None:
    """A time in ms since the epoch."""
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, tz=UTC)
