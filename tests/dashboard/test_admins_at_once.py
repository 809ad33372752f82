"""Two who take rights away at once, from each other or from themselves: somebody is left who has them.

Also on PostgreSQL (`test_postgresql.py`), where commands wait for rows and not in one line.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from django.db import connection, connections

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import approve_proposal
from dashboard.audit import trail
from dashboard.teams.models import Membership, Role, User
from dashboard.teams.services import deactivate, remove_member, set_role
from scheduler.model.errors import PermissionDenied, WeirError
from tests.dashboard.building import World, document, planned

AT_ONCE: dict[str, tuple[Callable[[World], list[Callable[[], object]]], Callable[[World], int]]] = {
    "both admins leave": (
        lambda world: [lambda name=name: remove_member(
            actor=world.users[name], user=world.users[name], team=world.city) for name in ("dev", "ana")],
        lambda world: Membership.objects.filter(team=world.city, role=Role.ADMIN).count()),
    "admins take each other's role": (
        lambda world: [lambda a=a, b=b: set_role(
            actor=world.users[a], user=world.users[b], team=world.city, role=Role.VIEWER)
            for a, b in (("dev", "ana"), ("ana", "dev"))],
        lambda world: Membership.objects.filter(team=world.city, role=Role.ADMIN).count()),
    "administrators deactivate each other": (
        lambda world: [lambda a=a, b=b: deactivate(actor=world.users[a], username=b)
                       for a, b in (("root", "vera"), ("vera", "root"))],
        lambda world: User.objects.filter(is_superuser=True, is_active=True).count()),
    "administrators deactivate themselves": (
        lambda world: [lambda name=name: deactivate(actor=world.users[name], username=name)
                       for name in ("root", "vera")],
        lambda world: User.objects.filter(is_superuser=True, is_active=True).count()),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("case", AT_ONCE)
def test_two_at_once_leave_somebody_who_administers(
    committed_world: World, case: str, monkeypatch: pytest.MonkeyPatch
):
    world = committed_world
    Membership.objects.filter(user=world.ana, team=world.city).update(role=Role.ADMIN)
    User.objects.filter(pk=world.vera.pk).update(is_superuser=True)
    barrier, at_end = threading.Barrier(2), trail.Audit.close

    def with_the_other(audit: trail.Audit) -> None:
        """Neither ends before the other one has come as far, where the database lets them be there together."""
        if connection.vendor != "sqlite":
            with suppress(threading.BrokenBarrierError):  # it waits for this one, as it should
                barrier.wait(1.0)
        at_end(audit)

    monkeypatch.setattr(trail.Audit, "close", with_the_other)
    acts, left = AT_ONCE[case]
    refused: list[Exception] = []

    def run(act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as error:
            refused.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(act,)) for act in acts(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert left(world) == 1
    assert [isinstance(error, WeirError) for error in refused] == [True]


@pytest.mark.django_db(transaction=True)
def test_an_approval_in_the_moment_in_which_its_role_ends_does_not_count(
    committed_world: World, monkeypatch: pytest.MonkeyPatch
):
    world = committed_world
    proposal = planned(world.carla, world.city, document("traffic"))
    at_end, refused = trail.Audit.close, []

    def approve() -> None:
        try:
            approve_proposal(actor=User.objects.get(username="ana"), proposal_id=proposal.pk,
                             digest=proposal.plan.digest)
        except WeirError as error:
            refused.append(type(error))
        finally:
            connections.close_all()

    other = threading.Thread(target=approve)

    def while_it_is_asked_for(audit: trail.Audit) -> None:
        """The role is gone, and nobody else knows it yet: the approval has come as far as it can."""
        if audit.verb == "team.set_role" and audit.actor == world.dev:
            other.start()
            deadline = time.monotonic() + 60
            while connection.vendor == "postgresql" and not _waits() and time.monotonic() < deadline:
                time.sleep(0.02)
        at_end(audit)

    monkeypatch.setattr(trail.Audit, "close", while_it_is_asked_for)
    set_role(actor=world.dev, user=world.ana, team=world.city, role=Role.VIEWER)
    other.join()
    assert refused == [PermissionDenied] and Proposal.objects.get(pk=proposal.pk).status == "pending"


def _waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        return cursor.fetchone()[0] > 0
