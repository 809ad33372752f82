"""Calendars of teams, which policies name."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('teams', '0002_people_and_tokens'),
    ]

    operations = [
        migrations.CreateModel(
            name='TeamCalendar',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=63)),
                ('days', models.JSONField(default=list)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='calendars', to='teams.team')),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('team', 'name'), name='one_calendar_a_name_and_team')],
            },
        ),
    ]
