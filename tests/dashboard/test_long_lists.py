"""However many rows somebody makes, no answer grows with them: each list has pages, or its rows a most."""

from __future__ import annotations

import copy
import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.db import models
from django.utils import timezone

from dashboard.alerts import services as alerts
from dashboard.alerts.models import MuteRow
from dashboard.approvals.models import Comment, Proposal
from dashboard.approvals.services import comment_on, commenting
from dashboard.core.http_errors import BadInput
from dashboard.teams.account_errors import InvalidValue
from dashboard.teams.services import memberships, set_secret
from tests.dashboard.alerting import alert_of
from tests.dashboard.building import World, document, planned
from tests.dashboard.one_of_each import QUERIES, Everything
from tests.dashboard.test_routes import drawn, everything, routes

__all__ = ["everything"]
MANY = 60  # more than stand on a page
MADE_WITHOUT_A_MOST = (
    "catalog.DataflowRecord", "catalog.DataflowVersion", "approvals.Proposal", "approvals.TeamRules", "alerts.Alert",
    "outbox.Delivery", "audit.AuditEntry", "controllers.RoundRow", "profiles.ProfileRecord", "profiles.SweepRecord",
    "operations.PostedEvent", "history.AnnotationRow")
OF_A_MOST = ("alerts/rules", "profiles/measure")  # 500 and 200 dataflows that one may choose from
WHOLE = ("export.csv", "profiles.csv")  # files that are asked for as a whole, up to a most of their own
LONGER = 20 * MANY  # characters: counts have more digits, and names that stand beside others


def copies(row: models.Model, first: int) -> None:
    """As many rows like one; what has to be another in each is another."""
    kind = type(row)
    apart = {
        field for constraint in kind._meta.constraints if isinstance(constraint, models.UniqueConstraint)
        for field in constraint.fields}
    apart |= {field for fields in kind._meta.unique_together for field in fields}
    made = []
    for number in range(first, first + MANY):
        new = copy.copy(row)
        new._state = copy.copy(row._state)
        new.pk = uuid.uuid4() if isinstance(kind._meta.pk, models.UUIDField) else None
        for field in kind._meta.concrete_fields:
            if field.primary_key or not (field.unique or field.name in apart):
                continue
            if field.is_relation and field.unique:
                setattr(new, field.attname, None if field.null else _like(getattr(row, field.name)).pk)
            elif isinstance(field, models.CharField | models.TextField):
                setattr(new, field.name, f"{number:04}{getattr(row, field.name)}"[:field.max_length])
            elif isinstance(field, models.IntegerField):
                setattr(new, field.name, 1_000 + number)
        made.append(new)
    kind._base_manager.bulk_create(made)


def _like(row: models.Model) -> models.Model:
    new = copy.copy(row)
    new._state = copy.copy(row._state)
    new.pk = uuid.uuid4() if isinstance(row._meta.pk, models.UUIDField) else None
    new.save(force_insert=True)
    return new


def asked_patterns() -> list[str]:
    """The addresses whose answers may not grow."""
    return [
        pattern for pattern in dict.fromkeys(routes())
        if not pattern.startswith(("login/", "logout/", "sign-on/")) and not pattern.endswith(WHOLE)
        and pattern not in OF_A_MOST]


def lengths(everything: Everything, patterns: list[str]) -> dict[str, int]:
    """How long each answer to an admin of both teams is."""
    by_pattern = {}
    for pattern in patterns:
        names = everything._names | everything._of_pattern.get(pattern, {})
        path = "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda name, names=names: str(names[name[1]]), pattern)
        answer = everything._clients["dev"].get(path, QUERIES.get(pattern, {}))
        if answer.status_code == 200:
            by_pattern[pattern] = len(answer.getvalue())
    return by_pattern


def test_twice_as_many_rows_make_no_answer_longer(everything: Everything, request: pytest.FixtureRequest) -> None:
    rows = [(name, apps.get_model(name)._base_manager.first()) for name in MADE_WITHOUT_A_MOST]
    models_with_rows = [row for _, row in rows if row is not None]
    assert len(models_with_rows) >= len(rows) - 1, [name for name, row in rows if row is None]
    for row in models_with_rows:
        copies(row, 0)
    patterns = drawn(request, asked_patterns())
    once = lengths(everything, patterns)
    for row in models_with_rows:
        copies(row, MANY)
    twice = lengths(everything, patterns)
    assert not {
        pattern: (length, twice[pattern]) for pattern, length in once.items() if twice[pattern] > length + LONGER}


def commented(world: World, number: int) -> object:
    return comment_on(actor=world.vera, proposal_id=Proposal.objects.get().pk, text=str(number))


def kept_secret(world: World, number: int) -> object:
    return set_secret(actor=world.dev, team=world.city, name=f"s{number}", value="x")


@pytest.mark.parametrize(("module", "name", "make", "error"), [
    (commenting, "MOST", commented, BadInput), (memberships, "MOST_SECRETS", kept_secret, InvalidValue)])
def test_what_stands_on_one_page_has_a_most(
    world: World, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, make: Callable, error: type[Exception]
) -> None:
    planned(world.carla, world.city, document("air"))
    monkeypatch.setattr(module, name, 3)
    for number in range(3):
        make(world, number)
    with pytest.raises(error):
        make(world, 3)
    assert Comment.objects.count() <= 3


def test_muting_again_takes_the_place_of_the_mute_before(world: World) -> None:
    alert = alert_of(world.city)
    for minutes in (60, 30, 90):
        for what in ("rule", "element", "both"):
            alerts.mute(
                actor=world.carla, alert_id=alert.pk, scope=what, until=timezone.now() + timedelta(minutes=minutes))
    assert MuteRow.objects.count() == 3
