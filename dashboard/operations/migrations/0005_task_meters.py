"""What running tasks were seen to take is kept by task."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("operations", "0004_tenancy")]

    operations = [
        migrations.CreateModel(
            name="TaskMeter",
            fields=[
                ("fingerprint", models.CharField(max_length=100, primary_key=True, serialize=False)),
                ("at", models.DateTimeField(db_index=True)),
                ("meter", models.JSONField()),
            ],
        ),
    ]
