"""The evidence of each controller, now and over kept history, and the effect of a round.

What is computed from values alone is in `scheduler.controllers.evidence`; here is what reads rows of its own. A
collector is an entry of ``COLLECTORS`` under the name that its controller ``reads``.
"""

from __future__ import annotations

from collections.abc import Mapping

from dashboard.controllers.collecting import profile_evidence, slow_tasks
from dashboard.controllers.site_world import StoredWorld
from scheduler.controllers.evidence import fusions
from scheduler.controllers.evidence.evidence_registry import PURE_COLLECTORS
from scheduler.controllers.evidence.world import Collector

COLLECTORS: Mapping[str, Collector[StoredWorld]] = {
    **PURE_COLLECTORS,
    "profiles": Collector(profile_evidence.evidence, profile_evidence.frames, profile_evidence.effect),
    "slow_tasks": Collector(slow_tasks.evidence, slow_tasks.frames, fusions.effect, slow_tasks.is_urgent)}
