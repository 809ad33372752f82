"""Kinds of plans on the site's side: how each is computed from a record, and what becomes of its dataflow.

What a kind is called and needs says its entry in ``scheduler.model.plan_kinds``. Each has a module here, and a place in
this table; `site_plan_kind` says what a module offers.
"""

from collections.abc import Mapping

from .change_kind import CHANGING
from .defragmentation_kind import DEFRAGMENTATION
from .isolation_kind import ISOLATION
from .move_kind import MOVING
from .pause_kind import PAUSING, RESUMPTION
from .removal_kind import REMOVAL
from .schedule_kind import SCHEDULING
from .setting_kind import SETTING
from .site_plan_kind import SitePlanKind
from .submission_kind import SUBMISSION

SITE_PLAN_KINDS: Mapping[str, SitePlanKind] = {kind.name: kind for kind in (
    SUBMISSION, REMOVAL, PAUSING, RESUMPTION, DEFRAGMENTATION, SCHEDULING, ISOLATION, MOVING, SETTING, CHANGING)}
