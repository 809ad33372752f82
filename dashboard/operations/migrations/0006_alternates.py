"""Which alternate is on of a dynamic task is a setting of the query that works on it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("operations", "0005_task_meters")]

    operations = [
        migrations.AddField("fragmentrow", "alternates", models.JSONField(default=dict)),
    ]
