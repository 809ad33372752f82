from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("alerts", "0002_silence_in_seconds")]

    operations = [migrations.AddField("alert", "concerned", models.JSONField(default=list))]
