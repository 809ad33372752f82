"""Setting the alternate of one key by hand: proposed like any switch by hand, held for a time, and released."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.utils import timezone

from dashboard.approvals.models import Proposal
from dashboard.approvals.services.alternate_holds import require_hold
from dashboard.approvals.services.rearrangement_proposals import propose_setting
from dashboard.audit.trail import audited
from dashboard.operations.estate_store.readable import require_readable
from dashboard.operations.models import KeyHold
from dashboard.operations.policies.policy_reader import RunningElement, running_element
from dashboard.teams.account_errors import InvalidValue
from dashboard.teams.models import Role, User
from dashboard.teams.permissions import require_role, viewer_of
from scheduler.model.alternates import BY
from scheduler.model.bounds import KEYS_BY_HAND
from scheduler.model.errors import NotFound, WeirError
from scheduler.model.key_texts import key_text_of

LONGEST_KEY = 200  # characters of a key's text, as whatever chooses for keys has it


class TooManyKeys(WeirError):
    """The limit of keys of a task that are set by hand is reached."""

    code = "too_many_keys"


def switch_key(
    *, actor: User, dataflow_id: UUID | str, task: str, key: Sequence[str], alternate: str, hold_s: float | None = None,
) -> Proposal:
    """Propose that a dynamic task is done by an alternate for one of its keys, for all who use it; an open proposal of
    just that is returned as it is.

    Parameters
    ----------
    key : sequence of str
        The values of the key's columns, in the order of the task's ``by``: numbers and booleans as texts.
    hold_s : float, optional
        For how long it holds, whatever the task's policy: from a minute to 31 days; an hour by default.

    Raises
    ------
    InvalidValue
        The key has other columns, or is too long; or it cannot be held for so long.
    TooManyKeys
        The task has, or would have, too many keys that are set by hand.
    """
    require_hold(hold_s)
    element = running_element(viewer_of(actor), dataflow_id, task)
    require_readable(viewer_of(actor), element.running.id)  # keys are of events
    text = _text(element, key)
    _require_room(element, text)
    hold_options = {} if hold_s is None else {"hold_s": hold_s}
    return propose_setting(
        actor=actor, dataflow_id=dataflow_id, task=task, alternate=alternate, of_key=text, **hold_options)


def release_key(*, actor: User, dataflow_id: UUID | str, task: str, key: Sequence[str]) -> None:
    """Let whatever chooses for keys decide again about one; by an engineer of the team of a dataflow with the task.

    Raises
    ------
    NotFound
        There is no such task, or nobody has set that key by hand.
    """
    viewer = viewer_of(actor)
    element = running_element(viewer, dataflow_id, task)
    require_role(viewer, element.record.team, Role.ENGINEER)
    with audited(actor=actor, verb="dataflow.release_key", subject=element.record, team=element.record.team) as audit:
        hold = KeyHold.objects.select_for_update().filter(
            task=element.running.id, key=_text(element, key), until__gt=timezone.now()).first()
        if hold is None:
            raise NotFound(f"Nobody has set {', '.join(key)} of {task} by hand.", remedy="Name a key that is held.",
                           task=task)
        hold.delete()
        audit.details = {"task": task, "key": list(key), "alternate": hold.alternate, "until": hold.until.isoformat()}


def _text(element: RunningElement, key: Sequence[str]) -> str:
    by = element.running.config.get(BY) or ()
    if not by:
        raise InvalidValue(f"{element.task} has one alternate for all keys.", remedy="Switch the task itself.")
    text = key_text_of(key) or ""
    if len(key) != len(by) or len(text) > LONGEST_KEY or not any(value.strip() for value in key):
        raise InvalidValue(
            f"That is no key of {element.task}, which is switched by {', '.join(by)}.",
            remedy=f"Give a value for each of these columns, {LONGEST_KEY} characters in all at most.")
    return text


def _require_room(element: RunningElement, text: str) -> None:
    holds = KeyHold.objects.filter(task=element.running.id, until__gt=timezone.now())
    held_keys = set(holds.values_list("key", flat=True))
    proposals = Proposal.objects.open().filter(
        dataflow=element.record, plan__options__task=element.task, plan__options__has_key="of_key")
    held_keys |= {options["of_key"] for options in proposals.values_list("plan__options", flat=True)}
    if len(held_keys | {text}) > KEYS_BY_HAND.most:
        raise TooManyKeys(
            f"{KEYS_BY_HAND.most} keys of {element.task} are set by hand, or are to be.",
            remedy="Release keys first, or let a learned guard choose for them.", task=element.task)
