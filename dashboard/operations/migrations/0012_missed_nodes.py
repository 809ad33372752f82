"""Since when nodes are missed whose queries have copies elsewhere."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("operations", "0011_restores")]

    operations = [
        migrations.AddField(model_name="noderow", name="missed_since", field=models.DateTimeField(null=True)),
    ]
