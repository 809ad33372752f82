"""Commands on proposals, from submission to enactment. Each enters ``audited``.

Imports everything of the site below the API. Read ``submission.py`` first, then ``reviewing.py`` and ``enacting.py``.
"""

from dashboard.approvals.services.adopting import adopt_near_miss
from dashboard.approvals.services.alternate_holds import release_alternate
from dashboard.approvals.services.commenting import comment_on, edit_comment, resolve_thread, see_mentions
from dashboard.approvals.services.draining import empty_nodes
from dashboard.approvals.services.enacting import drop_left_bundles, record_progress, roll_back_proposal
from dashboard.approvals.services.guarding import guard
from dashboard.approvals.services.key_holds import release_key, switch_key
from dashboard.approvals.services.plan_holds import enact_held
from dashboard.approvals.services.plan_retention import forget_plans
from dashboard.approvals.services.policy_proposals import PolicyDraft, propose_policy
from dashboard.approvals.services.rearrangement_proposals import (
    REARRANGEMENTS,
    defragment_dataflow,
    move_query,
    pause_at_once,
    pause_dataflow,
    remove_dataflow,
    resume_dataflow,
    switch_alternate,
)
from dashboard.approvals.services.reviewing import approve_proposal, cancel_proposal, reject_proposal
from dashboard.approvals.services.ruling import agree_to_rules, decline_rules, set_rules
from dashboard.approvals.services.savepoint_commands import delete_savepoint, take_savepoint
from dashboard.approvals.services.schedule_proposals import propose_schedule
from dashboard.approvals.services.submission import (
    choose_joining,
    prepare_proposal,
    recompute_proposal,
    submit_dataflow,
)
from dashboard.approvals.services.version_proposals import change_dataflow, propose_version
from dashboard.approvals.services.waiting_plans import carry_over_waiting

__all__ = [
    "REARRANGEMENTS", "PolicyDraft", "adopt_near_miss", "agree_to_rules", "approve_proposal", "cancel_proposal",
    "carry_over_waiting", "change_dataflow", "choose_joining", "comment_on", "decline_rules", "defragment_dataflow",
    "delete_savepoint",
    "drop_left_bundles", "edit_comment", "empty_nodes", "enact_held", "forget_plans", "guard",
    "move_query",
    "pause_at_once", "pause_dataflow", "prepare_proposal", "propose_policy", "propose_schedule", "propose_version",
    "recompute_proposal", "record_progress", "reject_proposal", "release_alternate", "release_key", "remove_dataflow",
    "resolve_thread", "resume_dataflow", "roll_back_proposal", "see_mentions", "set_rules", "submit_dataflow",
    "switch_alternate", "switch_key", "take_savepoint",
]
