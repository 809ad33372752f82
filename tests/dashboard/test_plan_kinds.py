"""Kinds of plans: each is complete in the core and on the site, and is undone by one that takes its entry back."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from dashboard.catalog.lifecycle import COMES_TO_REST, LIFECYCLE
from dashboard.plans.models import PlanRecord
from dashboard.plans.site_plan_kinds import SITE_PLAN_KINDS
from scheduler.model import plan_kinds
from scheduler.model.estate import Submitted
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import PLAN_KINDS, PlanKind, names_where
from scheduler.undoing import UNDO_FROM_PLAN

OPPOSITE = {"added": "removed", "removed": "added", "turned": "turned", "renewed": "renewed", "kept": "kept",
            "replaced": "replaced"}
ALL = pytest.mark.parametrize("kind", PLAN_KINDS.values(), ids=lambda kind: kind.name)


@ALL
def test_a_kind_has_all_its_parts(kind: PlanKind) -> None:
    assert [field.name for field in fields(kind) if getattr(kind, field.name) in ("", None)] == []
    back = PLAN_KINDS[kind.undone_by]
    assert back.undone_by == kind.name and back.entry == OPPOSITE[kind.entry]
    assert (kind.undo == "from_plan") == (kind.name in UNDO_FROM_PLAN)
    site = SITE_PLAN_KINDS[kind.name]
    assert site.kind is kind and callable(site.compute)
    assert site.becomes is None or site.becomes in LIFECYCLE.states
    assert all(site.becomes is None or state in LIFECYCLE.states for state in site.proposed_from)
    assert bool(site.proposed_from) != kind.has_document, "a submission proposes what has a document"
    assert len(kind.name) <= PlanRecord._meta.get_field("kind").max_length


def test_every_kind_that_is_declared_is_registered_in_both_places() -> None:
    declared = {kind.name for kind in vars(plan_kinds).values() if isinstance(kind, PlanKind)}
    assert declared == set(PLAN_KINDS) == set(SITE_PLAN_KINDS)
    assert set(COMES_TO_REST) <= {kind.becomes for kind in SITE_PLAN_KINDS.values()}


@ALL
def test_the_entry_before_and_after_is_what_the_kind_says(kind: PlanKind) -> None:
    dataflow = Submitted("d", "d", "t", {"a": "x"}, ())
    former = replace(dataflow, running={"a": "y"}) if kind.entry == "replaced" else None
    plan = Plan(
        kind=kind.name, generation=1, dataflow=dataflow, reused=(), started=(), stopped=(), steps=(), replaced=former)
    before, after = plan.entry_before, plan.entry_after
    assert (before is None) == (kind.entry in {"added", "kept"}) and (after is None) == (
        kind.entry in {"removed", "kept"})
    if kind.entry == "replaced":
        assert (before, after) == (former, dataflow)
    if kind.entry == "turned":
        assert before == replace(after, paused=not after.paused)


def test_what_a_flag_names() -> None:
    assert names_where("moves_queries") == ("defragment", "schedule", "isolate", "move", "set")
    assert names_where("schedules") == ("submit", "remove", "schedule", "change")
