from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("bills", "0001_squashed_0004_for_limits")]

    operations = [
        migrations.AddField("slotreading", "alternates", models.JSONField(default=dict)),
    ]
