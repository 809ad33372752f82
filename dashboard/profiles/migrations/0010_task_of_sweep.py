import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0003_paused_dataflows'),
        ('profiles', '0009_profiles_that_are_set_aside'),
    ]

    operations = [
        migrations.AddField(
            model_name='sweeprecord',
            name='dataflow',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='catalog.dataflowrecord'),
        ),
        migrations.AddField(
            model_name='sweeprecord',
            name='tasks',
            field=models.JSONField(default=list),
        ),
    ]
