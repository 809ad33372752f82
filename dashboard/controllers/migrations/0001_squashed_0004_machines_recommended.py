import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('controllers', '0001_settings_rounds_and_reasons'), ('controllers', '0002_defragmentation_of_teams'), ('controllers', '0003_changes_that_are_no_plans'), ('controllers', '0001_squashed_0003_changes_that_are_no_plans'), ('controllers', '0002_decided_as_proposals'), ('controllers', '0003_machine_orders'), ('controllers', '0004_machines_recommended')]

    initial = True

    dependencies = [
        ('catalog', '0001_squashed_0002_goals'),
        ('profiles', '0001_squashed_0011_sweeps_by_weir'),
        ('teams', '0001_squashed_0003_policies'),
    ]

    operations = [
        migrations.CreateModel(
            name='LoopRow',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('clock_s', models.FloatField(default=0.0)),
                ('next_number', models.PositiveIntegerField(default=1)),
                ('decided_s', models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name='ControllerSettings',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('controller', models.CharField(max_length=40)),
                ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='controllers', to='teams.team')),
                ('mode', models.CharField(choices=[('off', 'off'), ('recommends', 'recommends'), ('acts', 'acts')], max_length=10)),
                ('changes_per_hour', models.PositiveIntegerField()),
                ('changes_per_day', models.PositiveIntegerField()),
                ('cool_down_s', models.FloatField()),
                ('changed', models.DateTimeField(auto_now=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('controller', 'team'), name='one_setting_a_controller_and_team'), models.UniqueConstraint(condition=models.Q(('team', None)), fields=('controller',), name='one_setting_of_what_is_shared')],
            },
        ),
        migrations.CreateModel(
            name='ReasonRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('controller', models.CharField(max_length=40)),
                ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team')),
                ('target', models.CharField(blank=True, max_length=80)),
                ('dataflow', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='catalog.dataflowrecord')),
                ('profile', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='profiles.profilerecord')),
                ('why', models.TextField()),
                ('gist', models.TextField()),
                ('since', models.DateTimeField()),
                ('until', models.DateTimeField(db_index=True)),
                ('times', models.PositiveIntegerField(default=1)),
            ],
            options={
                'ordering': ['-until', '-id'],
                'indexes': [models.Index(fields=['controller', 'target', '-until'], name='newest_reason')],
            },
        ),
        migrations.CreateModel(
            name='RoundRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=60, unique=True)),
                ('controller', models.CharField(max_length=40)),
                ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team')),
                ('target', models.CharField(max_length=80)),
                ('dataflow', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='rounds', to='catalog.dataflowrecord')),
                ('profile', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='rounds', to='profiles.profilerecord')),
                ('mode', models.CharField(max_length=10)),
                ('phase', models.CharField(db_index=True, default='begun', max_length=14)),
                ('decision', models.JSONField()),
                ('begun', models.DateTimeField(db_index=True)),
                ('changed', models.DateTimeField(null=True)),
                ('back', models.DateTimeField(null=True)),
                ('ended', models.DateTimeField(null=True)),
                ('why', models.TextField(blank=True)),
                ('refused', models.BooleanField(default=False)),
                ('sweep', models.OneToOneField(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='round', to='profiles.sweeprecord')),
                ('stuck', models.TextField(blank=True)),
            ],
            options={
                'ordering': ['-begun', '-id'],
            },
        ),
        migrations.CreateModel(
            name='MachineOrder',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('node', models.CharField(max_length=60, unique=True)),
                ('size', models.CharField(max_length=40)),
                ('slots', models.PositiveSmallIntegerField()),
                ('per_hour', models.FloatField()),
                ('state', models.CharField(db_index=True, default='ordered', max_length=10)),
                ('why', models.TextField()),
                ('why_back', models.TextField(blank=True)),
                ('gave_up', models.BooleanField(default=False)),
                ('ordered', models.DateTimeField(db_index=True)),
                ('reported', models.DateTimeField(null=True)),
                ('ended', models.DateTimeField(null=True)),
                ('tries', models.PositiveIntegerField(default=0)),
                ('next_try', models.DateTimeField()),
                ('error', models.TextField(blank=True)),
                ('declined_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-ordered', '-id'],
            },
        ),
    ]
