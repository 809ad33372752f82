from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0001_squashed_0005_latency'),
    ]

    operations = [
        migrations.AddField(
            model_name='dataflowrecord',
            name='goals',
            field=models.JSONField(default=None, null=True),
        ),
        migrations.AddField(
            model_name='dataflowrecord',
            name='goals_chosen',
            field=models.JSONField(default=None, null=True),
        ),
    ]
