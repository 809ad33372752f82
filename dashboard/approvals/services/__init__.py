"""Commands on proposals, from submission to enactment. Each enters ``audited``.

Imports everything of the site below the API. Read ``submission.py`` first, then ``reviewing.py`` and ``enacting.py``.
"""

from dashboard.approvals.services.enacting import record_progress, roll_back_proposal
from dashboard.approvals.services.reviewing import approve_proposal, cancel_proposal, reject_proposal
from dashboard.approvals.services.submission import (
    prepare_proposal,
    recompute_proposal,
    remove_dataflow,
    submit_dataflow,
)

__all__ = [
    "approve_proposal", "cancel_proposal", "prepare_proposal", "recompute_proposal", "record_progress",
    "reject_proposal", "remove_dataflow", "roll_back_proposal", "submit_dataflow",
]
