"""The estate's generation: its lock, and its next number."""

from __future__ import annotations

from django.db import connection
from django.db.models import F

from dashboard import jobs
from dashboard.audit.trail import inside_command
from dashboard.operations.models import EstateState


def lock_generation() -> int:
    """Take the estate's lock until the transaction ends, and return the generation.

    Every command on proposals takes this lock first, so that two of them never wait for each other.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("the estate is locked inside a transaction")
    rows = EstateState.objects.select_for_update()
    state = rows.filter(pk=1).first()
    if state is None:
        EstateState.objects.get_or_create(pk=1)
        state = rows.get(pk=1)
    return state.generation


def state_for_update() -> EstateState:
    """The estate's row, locked; inside an audited command."""
    if not inside_command():
        raise RuntimeError("the estate changes inside an audited command only")
    return EstateState.objects.select_for_update().get(pk=1)


def advance(state: EstateState) -> None:
    """The next generation. After commit, plans that wait are held to it; none is taken in before it is."""
    state.generation += 1
    state.save()
    jobs.carry_over()


def revise() -> EstateState:
    """The next revision, under the estate's lock: settings alone have changed, and no plan was made from them."""
    if not inside_command():
        raise RuntimeError("the estate changes inside an audited command only")
    EstateState.objects.filter(pk=1).update(revision=F("revision") + 1)
    return EstateState.objects.get(pk=1)
