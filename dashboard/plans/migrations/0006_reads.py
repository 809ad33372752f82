from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("plans", "0005_isolations")]

    operations = [
        migrations.AddField(
            model_name="planrecord",
            name="reads",
            field=models.TextField(blank=True, default=""),
        ),
    ]
