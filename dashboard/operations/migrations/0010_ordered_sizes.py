"""The size of nodes that were ordered."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("operations", "0009_key_holds")]

    operations = [
        migrations.AddField(
            model_name="noderow", name="size", field=models.CharField(blank=True, default="", max_length=40)),
    ]
