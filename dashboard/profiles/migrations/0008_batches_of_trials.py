from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("profiles", "0007_batches_and_events"),
    ]

    operations = [
        migrations.AddField(
            model_name="trialrecord",
            name="batches",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="trialrecord",
            name="measured_s",
            field=models.FloatField(default=0.0),
        ),
    ]
