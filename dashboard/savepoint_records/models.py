"""Named savepoints as records."""

from __future__ import annotations

from django.db import models

from dashboard.savepoint_records.lifecycle import LIFECYCLE, TAKING
from scheduler.model.saved_states import SavedIdentity, SavedStates


class SavepointRow(models.Model):
    """A named savepoint of a dataflow's version: what its query ``fragment`` leaves on ``node`` beside its checkpoint.

    Its key begins with the node's name and ends in eight hexadecimal digits: files are called so. ``tasks`` has by task
    of the dataflow what it was (`SavedIdentity`). Size, moment and position are the node's word, once it is whole.
    """

    id = models.CharField(max_length=80, primary_key=True)
    team = models.ForeignKey("teams.Team", on_delete=models.CASCADE, related_name="savepoints")
    name = models.CharField(max_length=80)
    note = models.CharField(max_length=300, blank=True)
    dataflow = models.ForeignKey("catalog.DataflowRecord", on_delete=models.CASCADE, related_name="savepoints")
    version = models.PositiveIntegerField()
    taken_by = models.ForeignKey("teams.User", on_delete=models.PROTECT, related_name="+")
    taken_at = models.DateTimeField(auto_now_add=True)
    state = models.CharField(max_length=10, choices=[(s, s) for s in LIFECYCLE.states], default=TAKING)
    cause = models.TextField(blank=True)  # why it failed, with the remedy
    node = models.CharField(max_length=60)
    fragment = models.CharField(max_length=40)
    tasks = models.JSONField()
    size_bytes = models.BigIntegerField(null=True)
    saved_at_ms = models.BigIntegerField(null=True)
    next_event = models.BigIntegerField(null=True)  # with which its source goes on

    class Meta:
        ordering = ["-taken_at", "id"]
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="one_savepoint_a_name")]

    @property
    def states(self) -> SavedStates:
        """The states as a plan knows them; only of one that is whole."""
        if self.saved_at_ms is None:
            raise ValueError(f"savepoint {self.id} is not whole")
        return SavedStates(
            self.id, self.name, self.node, self.fragment, self.saved_at_ms, self.next_event,
            {task: SavedIdentity(*saved) for task, saved in self.tasks.items()})
