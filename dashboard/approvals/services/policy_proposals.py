"""Proposing by what a dynamic task is switched: another policy, or one that it had before; no query is touched.

It goes the way of every plan: all who share the task review it, it is audited and taken back.
"""

from __future__ import annotations

from uuid import UUID

from dashboard.approvals.models import Proposal
from dashboard.approvals.policy_drafts import PolicyDraft, policy_for
from dashboard.approvals.services.rearrangement_proposals import propose_setting
from dashboard.operations.policies.policy_reader import policy_told, running_element
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of
from scheduler.model.errors import NotFound
from scheduler.model.names import require_plain

LONGEST_REASON = 400


def propose_policy(
    *, actor: User, dataflow_id: UUID | str, task: str, draft: PolicyDraft | None = None, version: int | None = None,
    reason: str = "",
) -> Proposal:
    """Propose another policy for a dynamic task, for all who use it: ``draft``, or an earlier ``version`` again.

    Parameters
    ----------
    version : int, optional
        A version's number; 0 is what the document says.

    Raises
    ------
    NotFound
        There is no such task, alternate or version.
    InvalidGuard
        A guard or value cannot be one, names what the team may not read, or an alternate could never be on.
    """
    element = running_element(viewer_of(actor), dataflow_id, task)
    if draft is not None:
        policy = policy_for(viewer_of(actor), element, draft)
    else:
        current = policy_told(viewer_of(actor), dataflow_id, task)
        policies = {stored.number: stored.policy for stored in current.versions}
        if version not in policies:
            raise NotFound(f"The policy of {task} has no version {version}.",
                           remedy=f"Name one from 0 to {max(policies)}.", task=task)
        policy = policies[version]
    stated = None if policy == element.stated else policy.document()
    reason = require_plain(reason.strip(), what="The reason", most=LONGEST_REASON) if reason.strip() else ""
    return propose_setting(actor=actor, dataflow_id=dataflow_id, task=task, policy=stated, reason=reason)
