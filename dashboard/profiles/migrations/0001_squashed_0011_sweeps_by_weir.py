import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('profiles', '0001_profiles_sweeps_trials_and_observations'), ('profiles', '0002_memory_that_is_not_told'), ('profiles', '0003_selectivity_of_trials'), ('profiles', '0004_newest_trials'), ('profiles', '0005_code_and_what_was_fed'), ('profiles', '0006_set_aside_and_shared'), ('profiles', '0007_batches_and_events'), ('profiles', '0008_batches_of_trials'), ('profiles', '0009_profiles_that_are_set_aside'), ('profiles', '0010_task_of_sweep'), ('profiles', '0011_sweeps_by_weir')]

    initial = True

    dependencies = [
        ('catalog', '0001_squashed_0002_goals'),
        ('teams', '0001_squashed_0003_policies'),
    ]

    operations = [
        migrations.CreateModel(
            name='ProfileRecord',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('key', models.CharField(max_length=64)),
                ('task_type', models.CharField(db_index=True, max_length=100)),
                ('config', models.TextField(blank=True)),
                ('version', models.PositiveIntegerField(default=1)),
                ('machine', models.CharField(blank=True, max_length=120)),
                ('code', models.CharField(blank=True, max_length=64)),
                ('static', models.BooleanField(default=False)),
                ('origin', models.CharField(blank=True, max_length=200)),
                ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='teams.team')),
                ('active', models.BooleanField(default=True)),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('created', models.DateTimeField(auto_now_add=True)),
                ('changed', models.DateTimeField(auto_now=True)),
                ('rough', models.JSONField(default=list)),
                ('at_least', models.JSONField(default=list)),
                ('drifts', models.JSONField(default=list)),
            ],
            options={
                'ordering': ['task_type', '-created'],
            },
        ),
        migrations.CreateModel(
            name='ProfilePoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('profile', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='points', to='profiles.profilerecord')),
                ('threads', models.PositiveIntegerField()),
                ('rate_per_s', models.FloatField()),
                ('cpu', models.FloatField()),
                ('memory', models.FloatField()),
                ('idle_cpu', models.FloatField(default=0.0)),
                ('idle_memory', models.FloatField(default=0.0)),
                ('event_cpu', models.FloatField(null=True)),
            ],
            options={
                'ordering': ['threads'],
            },
        ),
        migrations.CreateModel(
            name='ObservationRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('profile', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='observations', to='profiles.profilerecord')),
                ('at', models.DateTimeField(db_index=True)),
                ('bundle', models.CharField(max_length=40)),
                ('threads', models.PositiveIntegerField()),
                ('rate_per_s', models.FloatField()),
                ('cpu', models.FloatField()),
                ('memory', models.FloatField(null=True)),
                ('stable', models.BooleanField(default=True)),
                ('shared', models.BooleanField()),
            ],
            options={
                'ordering': ['at'],
            },
        ),
        migrations.CreateModel(
            name='SweepRecord',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('task_type', models.CharField(max_length=100)),
                ('config', models.TextField()),
                ('version', models.PositiveIntegerField()),
                ('code', models.CharField(blank=True, max_length=64)),
                ('any_config', models.BooleanField(default=False)),
                ('feed', models.JSONField()),
                ('fed_by', models.CharField(blank=True, max_length=200)),
                ('dataflow', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='catalog.dataflowrecord')),
                ('tasks', models.JSONField(default=list)),
                ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='teams.team')),
                ('slot', models.CharField(max_length=80)),
                ('machine', models.CharField(blank=True, max_length=120)),
                ('slot_threads', models.PositiveIntegerField(null=True)),
                ('bounds', models.JSONField()),
                ('warm_up_s', models.FloatField()),
                ('seconds', models.FloatField()),
                ('status', models.CharField(db_index=True, default='queued', max_length=10)),
                ('reason', models.TextField(blank=True)),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('created', models.DateTimeField(auto_now_add=True)),
                ('started', models.DateTimeField(null=True)),
                ('ended', models.DateTimeField(null=True)),
                ('profile', models.OneToOneField(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='sweep', to='profiles.profilerecord')),
            ],
            options={
                'ordering': ['-created'],
            },
        ),
        migrations.CreateModel(
            name='TrialRecord',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('sweep', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='trials', to='profiles.sweeprecord')),
                ('number', models.PositiveIntegerField()),
                ('threads', models.PositiveIntegerField()),
                ('rate_per_s', models.FloatField()),
                ('why', models.CharField(max_length=200)),
                ('sent', models.DateTimeField(null=True)),
                ('heard', models.DateTimeField(null=True)),
                ('taken', models.BooleanField(default=False)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('ended', models.DateTimeField(null=True)),
                ('error', models.TextField(blank=True)),
                ('remedy', models.TextField(blank=True)),
                ('stable', models.BooleanField(null=True)),
                ('set_aside', models.BooleanField(default=False)),
                ('starved', models.BooleanField(default=False)),
                ('offered_per_s', models.FloatField(null=True)),
                ('achieved_per_s', models.FloatField(null=True)),
                ('selectivity', models.FloatField(null=True)),
                ('latency_slope', models.FloatField(null=True)),
                ('cpu', models.FloatField(default=0.0)),
                ('memory', models.FloatField(default=0.0)),
                ('idle_cpu', models.FloatField(default=0.0)),
                ('idle_memory', models.FloatField(default=0.0)),
                ('base_cpu', models.FloatField(default=0.0)),
                ('base_memory', models.FloatField(default=0.0)),
                ('batches_per_s', models.FloatField(null=True)),
                ('took_s', models.FloatField(default=0.0)),
                ('measured_s', models.FloatField(default=0.0)),
                ('quantiles', models.JSONField(default=dict)),
                ('series', models.JSONField(default=list)),
                ('batches', models.JSONField(default=list)),
                ('machine', models.JSONField(default=dict)),
                ('versions', models.JSONField(default=dict)),
            ],
            options={
                'ordering': ['number'],
            },
        ),
        migrations.AddIndex(
            model_name='profilerecord',
            index=models.Index(fields=['key', '-changed'], name='profiles_of_a_kind'),
        ),
        migrations.AddConstraint(
            model_name='profilerecord',
            constraint=models.UniqueConstraint(condition=models.Q(('active', True)), fields=('key',), name='one_active_profile_of_a_kind'),
        ),
        migrations.AddConstraint(
            model_name='profilepoint',
            constraint=models.UniqueConstraint(fields=('profile', 'threads'), name='one_point_a_thread_count'),
        ),
        migrations.AddIndex(
            model_name='trialrecord',
            index=models.Index(fields=['-ended'], name='newest_trials'),
        ),
        migrations.AddConstraint(
            model_name='trialrecord',
            constraint=models.UniqueConstraint(fields=('sweep', 'number'), name='one_trial_a_number'),
        ),
        migrations.AddConstraint(
            model_name='trialrecord',
            constraint=models.UniqueConstraint(condition=models.Q(('ended', None)), fields=('sweep',), name='one_trial_under_way_a_sweep'),
        ),
    ]
