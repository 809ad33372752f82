"""Policies of dynamic tasks and their versions, holds, and events that teams post for them."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('operations', '0007_guard_states'),
        ('teams', '0003_policies'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='fragmentrow',
            name='policies',
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name='guardstate',
            name='advice',
            field=models.TextField(blank=True),
        ),
        migrations.AddField(
            model_name='guardstate',
            name='verdicts',
            field=models.JSONField(default=dict),
        ),
        migrations.CreateModel(
            name='AlternateHold',
            fields=[
                ('task', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('alternate', models.CharField(max_length=64)),
                ('until', models.DateTimeField()),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='EventStream',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=63)),
                ('figures', models.JSONField(default=dict)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='PolicyVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('task', models.CharField(max_length=64)),
                ('number', models.PositiveIntegerField()),
                ('document', models.JSONField(null=True)),
                ('proposal', models.UUIDField()),
                ('reason', models.TextField(blank=True)),
                ('at', models.DateTimeField()),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['task', '-number'],
            },
        ),
        migrations.CreateModel(
            name='PostedEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at_ms', models.BigIntegerField()),
                ('values', models.JSONField(default=dict)),
                ('posted', models.DateTimeField()),
                ('stream', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='operations.eventstream')),
            ],
        ),
        migrations.AddConstraint(
            model_name='eventstream',
            constraint=models.UniqueConstraint(fields=('team', 'name'), name='one_event_stream_a_name'),
        ),
        migrations.AddConstraint(
            model_name='policyversion',
            constraint=models.UniqueConstraint(fields=('task', 'number'), name='one_policy_a_number'),
        ),
        migrations.AddIndex(
            model_name='postedevent',
            index=models.Index(fields=['stream', 'id'], name='events_in_order'),
        ),
        migrations.AddIndex(
            model_name='postedevent',
            index=models.Index(fields=['posted'], name='events_by_age'),
        ),
    ]
