"""No reading without its proposal any more: apart from what filled them in, which PostgreSQL wants committed before."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("schedules", "0002_outcomes_of_proposals")]

    operations = [
        migrations.RemoveIndex("reading", "schedules_r_dataflo_c2c543_idx"),
        migrations.RemoveField("reading", "dataflow"),
        migrations.AlterField(
            "reading", "proposal", models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="readings", to="approvals.proposal")),
        migrations.AlterField("reading", "since", models.DateTimeField()),
        migrations.AlterField("reading", "at", models.DateTimeField()),
        migrations.AddIndex(
            "reading", models.Index(fields=["proposal", "since", "at"], name="readings_of_a_schedule")),
    ]
