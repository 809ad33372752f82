import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('schedules', '0001_readings'), ('schedules', '0002_outcomes_of_proposals'), ('schedules', '0003_readings_of_proposals')]

    initial = True

    dependencies = [
        ('approvals', '0001_squashed_0002_rules_that_wait'),
    ]

    operations = [
        migrations.CreateModel(
            name='KeptOutcome',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('proposal', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='kept_outcome', to='approvals.proposal')),
                ('since', models.DateTimeField()),
                ('begins', models.DateTimeField()),
                ('ends', models.DateTimeField()),
                ('readings', models.PositiveIntegerField()),
                ('seen', models.JSONField()),
                ('history', models.JSONField()),
            ],
        ),
        migrations.CreateModel(
            name='Reading',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('proposal', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='readings', to='approvals.proposal')),
                ('since', models.DateTimeField()),
                ('at', models.DateTimeField()),
                ('seen', models.JSONField()),
            ],
            options={
                'ordering': ['at'],
                'indexes': [models.Index(fields=['proposal', 'since', 'at'], name='readings_of_a_schedule')],
            },
        ),
    ]
