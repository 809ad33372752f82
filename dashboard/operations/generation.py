"""The estate's generation: its lock, its next number, and the signal that tells of it."""

from __future__ import annotations

from django.db import connection
from django.db.models import F
from django.dispatch import Signal

from dashboard.audit.trail import inside_command
from dashboard.operations.models import EstateState

# Sent inside the transaction that makes a new generation, so that what was planned for the last one is overtaken in it.
moved = Signal()


def lock_generation() -> int:
    """Take the estate's lock until the transaction ends, and return the generation.

    Every command on proposals takes this lock first, so that two of them never wait for each other.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("the estate is locked inside a transaction")
    EstateState.objects.get_or_create(pk=1)
    return EstateState.objects.select_for_update().get(pk=1).generation


def state_for_update() -> EstateState:
    """The estate's row, locked; inside an audited command."""
    if not inside_command():
        raise RuntimeError("the estate changes inside an audited command only")
    return EstateState.objects.select_for_update().get(pk=1)


def advance(state: EstateState) -> None:
    """The next generation, and everybody who planned for the last one is told."""
    state.generation += 1
    state.save()
    moved.send(sender=None, generation=state.generation)


def revise() -> EstateState:
    """The next revision, under the estate's lock: settings alone have changed, and no plan was made from them."""
    if not inside_command():
        raise RuntimeError("the estate changes inside an audited command only")
    EstateState.objects.filter(pk=1).update(revision=F("revision") + 1)
    return EstateState.objects.get(pk=1)
