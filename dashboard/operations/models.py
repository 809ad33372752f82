"""The estate's rows: generation, running tasks, uses, fragments and nodes."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from scheduler.model.settings_of_fragments import SETTINGS, FragmentSettings


class EstateState(models.Model):
    """One row: the estate's generation, and how often settings have changed. Who changes the estate locks it first.

    Where an administrator chose them: ``pacing`` is how intervals are chosen (`pacing_choice`),
    ``tenancy`` whether teams share slots (`tenancy_choice`).
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    generation = models.PositiveIntegerField(default=0)
    revision = models.PositiveIntegerField(default=0)
    pacing = models.CharField(max_length=20, blank=True, default="")
    tenancy = models.CharField(max_length=20, blank=True, default="")
    changed = models.DateTimeField(auto_now=True)

    @property
    def name(self) -> str:
        """Its name in the audit trail."""
        return "the estate"


class RunningTaskRow(models.Model):
    """A running task; its key is its fingerprint."""

    fingerprint = models.CharField(max_length=100, primary_key=True)
    type = models.CharField(max_length=100)
    config = models.JSONField()
    parents = models.JSONField()
    scope = models.CharField(max_length=40, blank=True)
    cores = models.FloatField(default=0.0)
    rate_per_s = models.FloatField(null=True)  # that it was expected to work at; null where nobody noted it
    kin = models.CharField(max_length=32, db_index=True, default="")  # of type, parents and scope: its siblings'
    fragment = models.CharField(max_length=40, db_index=True, default="")  # id of the one that it works or rests in
    position = models.PositiveIntegerField(default=0)  # there
    started_generation = models.PositiveIntegerField()
    started_at = models.DateTimeField(auto_now_add=True)


class Use(models.Model):
    """A running task stands for this task of a submitted dataflow."""

    dataflow = models.ForeignKey("catalog.DataflowRecord", on_delete=models.PROTECT, related_name="uses")
    task_id = models.CharField(max_length=200)
    position = models.PositiveIntegerField()
    is_sink = models.BooleanField()
    paused = models.BooleanField(default=False)  # the whole dataflow is
    scheduled = models.BooleanField(default=False)  # so was the whole dataflow, when it was submitted or since
    unchained = models.BooleanField(default=False)  # the task is to have a query of its own
    running_task = models.ForeignKey(RunningTaskRow, on_delete=models.PROTECT, related_name="uses")

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["dataflow", "task_id"], name="one_use_a_task")]
        indexes = [
            models.Index(fields=["running_task", "dataflow"]),  # the first users of a task, however many
            models.Index(fields=["running_task"], condition=models.Q(unchained=True), name="unchained_uses")]


class TeamUse(models.Model):
    """The number of a team's dataflows that use a running task: kept, because a source may have 20,000 users."""

    running_task = models.ForeignKey(RunningTaskRow, on_delete=models.CASCADE, related_name="team_uses")
    team = models.ForeignKey("teams.Team", on_delete=models.PROTECT, related_name="+")
    dataflows = models.PositiveIntegerField(default=0)
    paused = models.PositiveIntegerField(default=0)  # of them

    class Meta:
        constraints = [models.UniqueConstraint(fields=["running_task", "team"], name="one_count_a_task_and_team")]


class FragmentRow(models.Model):
    """A chain of running tasks that one query executes, and what that is set to (`FragmentSettings`)."""

    id = models.CharField(max_length=40, primary_key=True)
    tasks = models.JSONField()
    slot = models.CharField(max_length=80, db_index=True)
    active = models.PositiveIntegerField()
    resting = models.PositiveIntegerField(default=0)
    outlets = models.JSONField(default=dict)
    channels = models.JSONField(default=dict)
    inherits = models.JSONField(default=list)
    origin = models.CharField(max_length=60, blank=True, default="", db_index=True)
    team = models.CharField(max_length=40, blank=True, default="", db_index=True)  # whose dataflow brought it
    joins = models.JSONField(default=dict)
    bundles = models.JSONField(default=list)
    trigger_ms = models.PositiveIntegerField(null=True)  # None: `settings.TRIGGER_MS`
    real_time = models.BooleanField(default=False)
    alternates = models.JSONField(default=dict)  # on of dynamic tasks, by running task; else as at first
    policies = models.JSONField(default=dict)  # by which they are switched, by running task; else as documents say
    restores = models.JSONField(default=dict)  # what running tasks begin with of named savepoints (`SavedTask`)
    started_generation = models.PositiveIntegerField()
    started_at = models.DateTimeField(auto_now_add=True)

    @property
    def settings(self) -> FragmentSettings:
        """The settings of its queries."""
        return FragmentSettings(*(getattr(self, name) for name in SETTINGS))


class BundleSlot(models.Model):
    """The slot of a bundle of a divided fragment: looked up by its slot, for what runs there, and by its id."""

    fragment = models.ForeignKey(FragmentRow, on_delete=models.CASCADE, related_name="bundle_slots")
    bundle = models.CharField(max_length=40, db_index=True)
    slot = models.CharField(max_length=80, db_index=True)


class NodeRow(models.Model):
    """A machine and how many slots it offers; its class and the threads of its slots' drivers are known once its agent
    has reported."""

    name = models.CharField(max_length=60, primary_key=True)
    slots = models.PositiveSmallIntegerField()
    seen = models.DateTimeField(null=True)
    machine = models.CharField(max_length=120, blank=True, default="")
    threads = models.PositiveIntegerField(null=True)
    speed = models.FloatField(null=True)  # of its cores, once its agent has looked: `scheduler.performance.shipped`
    size = models.CharField(max_length=40, blank=True, default="")  # of the catalogue, where it was ordered
    draining_since = models.DateTimeField(null=True)  # nothing new is placed there, and what can move leaves
    missed_since = models.DateTimeField(null=True)  # no heartbeat comes, and copies of its state are elsewhere

    class Meta:
        ordering = ["name"]


class SlotRow(models.Model):
    """A slot that a node offers, and what it has to do; kept from plan to plan.

    ``reserved_for`` says what has the slot to itself for a while (a measurement): nothing is placed there.
    """

    node = models.ForeignKey(NodeRow, on_delete=models.CASCADE, related_name="slot_rows")
    index = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=80, unique=True)
    queries = models.PositiveIntegerField(default=0)
    task_nanocores = models.BigIntegerField(default=0)
    bundles = models.PositiveIntegerField(default=0)  # of the queries: those that a schedule put there
    reserved_for = models.CharField(max_length=100, blank=True, default="")

    class Meta:
        ordering = ["node_id", "index"]


class CostObservation(models.Model):
    """The cost and the load of a slot over an hour while it ran the same queries, as costs are learned from.

    ``group`` is a digest of the queries; ``queries`` holds, by id, ``batches`` and ``tasks``: pairs of type and events;
    of one whose batches stay open also ``groups`` of events.
    """

    machine = models.CharField(max_length=120)
    slot = models.CharField(max_length=80)
    group = models.CharField(max_length=64)
    hour = models.DateTimeField()
    seconds = models.FloatField(default=0.0)
    cpu_us = models.BigIntegerField(default=0)
    queries = models.JSONField(default=dict)

    class Meta:
        indexes = [models.Index(fields=["machine", "-hour"])]
        constraints = [models.UniqueConstraint(fields=["slot", "group", "hour"], name="one_observation_an_hour")]


class CostFit(models.Model):
    """Costs that were learned for a class of machine (`scheduler.model.costs.Costs`); the newest version counts."""

    machine = models.CharField(max_length=120)
    version = models.PositiveIntegerField()
    at = models.DateTimeField()
    costs = models.JSONField()

    class Meta:
        ordering = ["machine", "-version"]
        constraints = [models.UniqueConstraint(fields=["machine", "version"], name="one_fit_a_version")]


class TaskMeter(models.Model):
    """The metered cost of a running task, as it was charged (`scheduler.model.cost_figures.CostMeter`)."""

    fingerprint = models.CharField(max_length=100, primary_key=True)
    at = models.DateTimeField(db_index=True)
    meter = models.JSONField()


class HandoverPause(models.Model):
    """The time in which nothing worked at the tasks of a query that went on with others' work, as its node reported,
    and whether these were on another node."""

    query = models.CharField(max_length=40)
    at_ms = models.BigIntegerField(db_index=True)
    gap_ms = models.PositiveIntegerField()
    between_nodes = models.BooleanField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["query", "at_ms"], name="one_pause_a_handover")]


class Loss(models.Model):
    """The loss of a stream by a dataflow because its team chose that: what a reader's node told last."""

    dataflow = models.ForeignKey("catalog.DataflowRecord", on_delete=models.CASCADE, related_name="losses")
    reader = models.CharField(max_length=40)
    channel = models.CharField(max_length=100)
    blocks = models.BigIntegerField(default=0)
    events = models.BigIntegerField(default=0)
    changed = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["dataflow", "reader", "channel"], name="one_loss_a_reader")]


class SlowQuery(models.Model):
    """A query that falls behind though others need a part of it: since when, and what its meters had counted then.

    ``why_not`` says why the slow task cannot be cut out of it.
    """

    fragment = models.CharField(max_length=40, primary_key=True)
    since = models.DateTimeField()
    at_ms = models.BigIntegerField()
    counts = models.JSONField(default=dict)
    slow = models.CharField(max_length=100, blank=True, default="")  # running task
    why_not = models.TextField(blank=True, default="")


class CutTask(models.Model):
    """A running task that begins a query because it was too slow for the one that it was in: it is not fused again."""

    task = models.OneToOneField(
        RunningTaskRow, primary_key=True, on_delete=models.CASCADE, db_constraint=False, related_name="+")
    at = models.DateTimeField(auto_now_add=True)


class BatchFigures(models.Model):
    """The cost of batches of a fragment's queries, their users' needs, and the reason why they cannot stay open; as the
    pacer found last. How far apart they are is a setting of the fragment.
    """

    fragment = models.OneToOneField(
        FragmentRow, primary_key=True, on_delete=models.CASCADE, db_constraint=False, related_name="figures")
    cost = models.JSONField(default=dict)  # of its batches: `scheduler.latency.triggers.BatchCost`
    # Where several dataflows share it and need it differently often: what each would have alone, in ms.
    alone_ms = models.JSONField(default=dict)
    # How far apart they would be if none of these had a limit; None where nobody told who needs it how often.
    unlimited_ms = models.PositiveIntegerField(null=True)
    refusal = models.CharField(max_length=200, default="", blank=True)

    @property
    def trigger_ms(self) -> int:
        """The interval of batches, or of the groups of events of an open one, in ms."""
        return settings.TRIGGER_MS if self.fragment.trigger_ms is None else self.fragment.trigger_ms

    @property
    def real_time(self) -> bool:
        """True if batches stay open."""
        return self.fragment.real_time


class ModesWanted(models.Model):
    """One row: how queries' batches would be chosen if modes were free, where that differs from the modes in force.

    ``queries`` by fragment: whether its batches would be open, and how far apart they or their groups begin, in ms.
    ``cores`` by fragment, with readers: what it takes now and would take. ``limits`` by dataflow and number: the
    latency then, in seconds, and whether that meets it.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    at = models.DateTimeField()
    queries = models.JSONField(default=dict)
    cores = models.JSONField(default=dict)
    limits = models.JSONField(default=dict)


class LatencyStatus(models.Model):
    """The status of one latency limit of a running dataflow at the last look.

    ``number`` counts the dataflow's limits. Seconds: ``expected_s`` with the intervals that were chosen; ``measured_s``
    since these were in force; ``least_s``, where it cannot be met by the model, what there is at the least; ``other_s``
    what was measured beyond what is modelled. ``path`` lists its slowest way: fragment, wait and batch, in seconds.
    """

    dataflow = models.ForeignKey("catalog.DataflowRecord", on_delete=models.CASCADE, related_name="latency_statuses")
    number = models.PositiveSmallIntegerField()
    limit = models.JSONField()
    state = models.CharField(max_length=12)  # of `scheduler.latency.limits_met`
    expected_s = models.FloatField()
    measured_s = models.FloatField(null=True)
    least_s = models.FloatField(null=True)
    other_s = models.FloatField(default=0.0)
    path = models.JSONField(default=list)
    full = models.JSONField(default=list)  # slots for want of whose CPU it is not met
    since = models.DateTimeField()  # that it is in this state
    late_since = models.DateTimeField(null=True)  # that it is not met, in one state or the other
    hopeless = models.BooleanField(default=False)  # neither intervals nor open batches would meet it, by far
    at = models.DateTimeField()

    class Meta:
        ordering = ["dataflow", "number"]
        constraints = [models.UniqueConstraint(fields=["dataflow", "number"], name="one_status_a_limit")]


class GuardState(models.Model):
    """The state of the guards of a running task: ``state`` to go on from, ``readings`` of figures and words.

    ``verdicts`` has the value of each guard and value function. ``because`` says why its alternate is wanted;
    ``trouble`` that guards allow none, or several that exclude another; ``advice`` what to do where it switches too
    often.
    """

    task = models.CharField(max_length=64, primary_key=True)  # a running task's fingerprint
    state = models.JSONField(default=dict)
    readings = models.JSONField(default=dict)
    because = models.TextField(blank=True)
    trouble = models.CharField(max_length=20, blank=True)
    verdicts = models.JSONField(default=dict)
    advice = models.TextField(blank=True)
    at = models.DateTimeField()


class PolicyVersion(models.Model):
    """A policy by which a dynamic task was switched from a moment on: versions count from 1, for 0 is what its document
    says.

    ``document`` is null where a version is what the document says again. ``proposal`` is the id of the one by which it
    came, or that it was taken back with.
    """

    task = models.CharField(max_length=64)  # a running task's fingerprint
    number = models.PositiveIntegerField()
    document = models.JSONField(null=True)
    proposal = models.UUIDField()
    author = models.ForeignKey("teams.User", null=True, on_delete=models.PROTECT, related_name="+")
    reason = models.TextField(blank=True)
    at = models.DateTimeField()

    class Meta:
        ordering = ["task", "-number"]
        constraints = [models.UniqueConstraint(fields=["task", "number"], name="one_policy_a_number")]


class AlternateHold(models.Model):
    """A hold: a dynamic task stays as somebody has set it by hand until a time, whatever other policy sources want."""

    task = models.CharField(max_length=64, primary_key=True)  # a running task's fingerprint
    alternate = models.CharField(max_length=64)
    until = models.DateTimeField()
    by = models.ForeignKey("teams.User", on_delete=models.PROTECT, related_name="+")


class KeyHold(models.Model):
    """A hold on a key of a dynamic task: its alternate stays as somebody has set it by hand until a time, whatever
    chooses for keys."""

    task = models.CharField(max_length=64)  # a running task's fingerprint
    key = models.CharField(max_length=200)  # its text (`scheduler.model.key_texts`)
    alternate = models.CharField(max_length=64)
    until = models.DateTimeField()
    by = models.ForeignKey("teams.User", on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["task", "key"]
        constraints = [models.UniqueConstraint(fields=["task", "key"], name="one_hold_a_key")]


class EventStream(models.Model):
    """Events that a team posts for its policies, under a name: its figures with their kinds, as they came so far."""

    team = models.ForeignKey("teams.Team", on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=63)
    figures = models.JSONField(default=dict)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="one_event_stream_a_name")]


class PostedEvent(models.Model):
    """One of them; those that are posted later have higher ids."""

    stream = models.ForeignKey(EventStream, on_delete=models.CASCADE, related_name="events")
    at_ms = models.BigIntegerField()
    values = models.JSONField(default=dict)
    posted = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["stream", "id"], name="events_in_order"),
            models.Index(fields=["posted"], name="events_by_age")]
