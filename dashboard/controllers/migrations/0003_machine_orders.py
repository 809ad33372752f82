"""Machines that were ordered for adaptation."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("controllers", "0002_decided_as_proposals")]

    operations = [
        migrations.CreateModel(
            name="MachineOrder",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("node", models.CharField(max_length=60, unique=True)),
                ("size", models.CharField(max_length=40)),
                ("slots", models.PositiveSmallIntegerField()),
                ("per_hour", models.FloatField()),
                ("state", models.CharField(db_index=True, default="ordered", max_length=10)),
                ("why", models.TextField()),
                ("why_back", models.TextField(blank=True)),
                ("gave_up", models.BooleanField(default=False)),
                ("ordered", models.DateTimeField(db_index=True)),
                ("reported", models.DateTimeField(null=True)),
                ("ended", models.DateTimeField(null=True)),
                ("tries", models.PositiveIntegerField(default=0)),
                ("next_try", models.DateTimeField()),
                ("error", models.TextField(blank=True)),
            ],
            options={"ordering": ["-ordered", "-id"]},
        ),
    ]
