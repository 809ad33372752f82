"""The evidence of each controller, now and over kept history, and the effect of a round.

It is computed by `scheduler.controllers.evidence`; here is what the site does besides. A collector is an entry of
``COLLECTORS`` under the name that its controller ``reads``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dashboard.controllers.collecting import isolation_notes
from dashboard.controllers.overloads import OVERLOADED
from dashboard.controllers.site_world import StoredWorld
from scheduler.controllers.controller_registry import PURE_COLLECTORS
from scheduler.controllers.evidence.world import Collector

COLLECTORS: Mapping[str, Collector[StoredWorld]] = {
    **PURE_COLLECTORS,
    "adaptations": replace(PURE_COLLECTORS["adaptations"], is_urgent=OVERLOADED.look),
    "slow_tasks": replace(
        PURE_COLLECTORS["slow_tasks"], note=isolation_notes.note, is_urgent=isolation_notes.is_urgent)}
