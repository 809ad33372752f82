"""What fragments begin with of named savepoints."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("operations", "0010_ordered_sizes")]

    operations = [
        migrations.AddField(model_name="fragmentrow", name="restores", field=models.JSONField(default=dict)),
    ]
