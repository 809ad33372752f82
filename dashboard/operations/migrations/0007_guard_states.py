"""What the guards of dynamic tasks have come to is kept, so that another process goes on with it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("operations", "0006_alternates")]

    operations = [
        migrations.CreateModel("GuardState", [
            ("task", models.CharField(max_length=64, primary_key=True, serialize=False)),
            ("state", models.JSONField(default=dict)),
            ("readings", models.JSONField(default=dict)),
            ("because", models.TextField(blank=True)),
            ("trouble", models.CharField(blank=True, max_length=20)),
            ("at", models.DateTimeField()),
        ]),
    ]
