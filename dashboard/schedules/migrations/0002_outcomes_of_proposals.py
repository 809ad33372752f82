"""A reading belongs to the schedule that was in force when it was taken, and what is kept of it to its proposal.

Readings that are there get theirs. They are the last two hours', so those that fit none are let go.
"""

from datetime import timedelta

import django.db.models.deletion
from django.db import migrations, models

SETTLES = timedelta(seconds=45)


def belong(apps, schema_editor):
    reading, proposal = apps.get_model("schedules", "Reading"), apps.get_model("approvals", "Proposal")
    for dataflow_id in reading.objects.order_by().values_list("dataflow_id", flat=True).distinct():
        found = reading.objects.filter(dataflow_id=dataflow_id)
        finished = list(
            proposal.objects.filter(dataflow_id=dataflow_id, finished_at__isnull=False).order_by("finished_at").values(
                "pk", "status", "plan__kind", "approved_at", "finished_at"))
        in_force = None
        for row, after in zip(finished, [*finished[1:], None], strict=True):
            if row["status"] == "done" and row["plan__kind"] in ("submit", "schedule"):
                in_force = row["pk"]
            if in_force is None:
                continue
            own = found.filter(at__gte=row["finished_at"] + SETTLES)
            if after is not None:
                own = own.filter(at__lt=after["approved_at"] or after["finished_at"])
            own.update(proposal_id=in_force, since=row["finished_at"])
    reading.objects.filter(proposal=None).delete()


class Migration(migrations.Migration):

    dependencies = [
        ("approvals", "0003_proposals_without_an_author"),
        ("schedules", "0001_readings"),
    ]

    operations = [
        migrations.AddField(
            "reading", "proposal", models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, related_name="readings",
                to="approvals.proposal")),
        migrations.AddField("reading", "since", models.DateTimeField(null=True)),
        migrations.CreateModel(
            name="KeptOutcome",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("since", models.DateTimeField()),
                ("begins", models.DateTimeField()),
                ("ends", models.DateTimeField()),
                ("readings", models.PositiveIntegerField()),
                ("seen", models.JSONField()),
                ("history", models.JSONField()),
                ("proposal", models.OneToOneField(
                    on_delete=django.db.models.deletion.CASCADE, related_name="kept_outcome",
                    to="approvals.proposal")),
            ],
        ),
        migrations.RunPython(belong, migrations.RunPython.noop),
    ]
