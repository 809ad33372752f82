"""Missed nodes: no heartbeat comes, and copies of their queries' state are on others. They count as silent at once.

Agents renew their leases twice a second or more often; who watches reads how old the renewals are. A node without
copies elsewhere is not missed: nothing could go on, and it may be back soon. No state of the estate changes, so nothing
is audited.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from dashboard import node_calls
from dashboard.jobs import BrokerAway
from dashboard.operations.estate_store.offered_slots import SILENT_AFTER
from dashboard.operations.models import FragmentRow, NodeRow
from scheduler.elasticity.heartbeats import HeartbeatWatch


class MissedNodes:
    """One process's watch. Others may watch, too: they write the same.

    Parameters
    ----------
    clock_s : callable
        Seconds that never go back.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s, self._watch = clock_s, HeartbeatWatch(settings.NODE_LOST_S)
        self._missed_since: dict[str, datetime] = {}  # as the rows have it, since when

    def look(self) -> bool:
        """Note who is missed and who is back; whether anybody is missed so newly that moves are to begin at once."""
        before, began_s = self._watch, self._clock_s()
        try:
            newest = node_calls.heartbeats(self._missed_since)
            self._watch = before.look(newest, began_s=began_s, ended_s=self._clock_s())
            if self._watch.since_s != before.since_s:  # another process may have watched meanwhile
                self._missed_since = dict(
                    NodeRow.objects.exclude(missed_since=None).values_list("name", "missed_since"))
            self._missed_since = self._update_missed(self._missed_since)
        except BrokerAway:
            self._watch = before.fail()
        return any(since > timezone.now() - SILENT_AFTER for since in self._missed_since.values())

    def _update_missed(self, noted: Mapping[str, datetime]) -> dict[str, datetime]:
        """The missed nodes, of those that were and of whichever else have copies elsewhere."""
        watch = self._watch
        heard = {name for name in noted if watch.heard_s.get(name, watch.since_s) > watch.since_s} - watch.missed
        if heard:
            NodeRow.objects.filter(name__in=heard).update(missed_since=None)
        missed = {name: since for name, since in noted.items() if name not in heard}
        living = watch.heard_s.keys() - watch.missed
        for name in sorted(watch.missed - noted.keys()):
            if watch.looked_s - watch.heard_s[name] > SILENT_AFTER.total_seconds():
                continue  # it counts as silent by now, or has left the estate
            queries = list(FragmentRow.objects.filter(slot__startswith=f"{name}/").values_list("id", flat=True))
            if queries and node_calls.copy_holders(queries, living=living):
                missed[name] = timezone.now()
                NodeRow.objects.filter(name=name).update(missed_since=missed[name])
        return missed
