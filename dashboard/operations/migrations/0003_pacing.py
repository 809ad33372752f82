"""How intervals are chosen is a setting of the estate."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("operations", "0002_settings")]

    operations = [
        migrations.AddField("estatestate", "pacing", models.CharField(blank=True, default="", max_length=20)),
    ]
