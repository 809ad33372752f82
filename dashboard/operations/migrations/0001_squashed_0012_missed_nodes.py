import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('operations', '0001_initial'), ('operations', '0002_look_ups'), ('operations', '0003_fill_look_ups'), ('operations', '0004_kin'), ('operations', '0005_slot_of_fragment'), ('operations', '0006_bundles'), ('operations', '0007_machine_of_node'), ('operations', '0008_bundles_of_slot'), ('operations', '0009_bundle_of_slot'), ('operations', '0010_scheduled'), ('operations', '0011_threads_of_node'), ('operations', '0012_shrinking_file'), ('operations', '0013_costs'), ('operations', '0014_slow_readers'), ('operations', '0015_history_is_kept_elsewhere'), ('operations', '0016_speed_of_node'), ('operations', '0017_pacing'), ('operations', '0018_real_time'), ('operations', '0019_unchained'), ('operations', '0020_moves_between_nodes'), ('operations', '0021_late_since'), ('operations', '0022_modes_wanted'), ('operations', '0023_handover_pauses'), ('operations', '0024_hopeless_limits'), ('operations', '0025_pauses_between_nodes'), ('operations', '0026_unlimited'), ('operations', '0001_squashed_0026_unlimited'), ('operations', '0002_settings'), ('operations', '0003_pacing'), ('operations', '0004_tenancy'), ('operations', '0005_task_meters'), ('operations', '0006_alternates'), ('operations', '0007_guard_states'), ('operations', '0008_policies'), ('operations', '0009_key_holds'), ('operations', '0010_ordered_sizes'), ('operations', '0011_restores'), ('operations', '0012_missed_nodes')]

    initial = True

    dependencies = [
        ('catalog', '0001_squashed_0002_goals'),
        ('teams', '0001_squashed_0003_policies'),
    ]

    operations = [
        migrations.CreateModel(
            name='RunningTaskRow',
            fields=[
                ('fingerprint', models.CharField(max_length=100, primary_key=True, serialize=False)),
                ('type', models.CharField(max_length=100)),
                ('config', models.JSONField()),
                ('parents', models.JSONField()),
                ('scope', models.CharField(blank=True, max_length=40)),
                ('cores', models.FloatField(default=0.0)),
                ('rate_per_s', models.FloatField(null=True)),
                ('kin', models.CharField(db_index=True, default='', max_length=32)),
                ('fragment', models.CharField(db_index=True, default='', max_length=40)),
                ('position', models.PositiveIntegerField(default=0)),
                ('started_generation', models.PositiveIntegerField()),
                ('started_at', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name='FragmentRow',
            fields=[
                ('id', models.CharField(max_length=40, primary_key=True, serialize=False)),
                ('tasks', models.JSONField()),
                ('slot', models.CharField(db_index=True, max_length=80)),
                ('active', models.PositiveIntegerField()),
                ('resting', models.PositiveIntegerField(default=0)),
                ('outlets', models.JSONField(default=dict)),
                ('channels', models.JSONField(default=dict)),
                ('inherits', models.JSONField(default=list)),
                ('origin', models.CharField(blank=True, db_index=True, default='', max_length=60)),
                ('joins', models.JSONField(default=dict)),
                ('bundles', models.JSONField(default=list)),
                ('started_generation', models.PositiveIntegerField()),
                ('started_at', models.DateTimeField(auto_now_add=True)),
                ('trigger_ms', models.PositiveIntegerField(null=True)),
                ('real_time', models.BooleanField(default=False)),
                ('team', models.CharField(blank=True, db_index=True, default='', max_length=40)),
                ('alternates', models.JSONField(default=dict)),
                ('policies', models.JSONField(default=dict)),
                ('restores', models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name='ModesWanted',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
                ('queries', models.JSONField(default=dict)),
                ('cores', models.JSONField(default=dict)),
                ('limits', models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name='NodeRow',
            fields=[
                ('name', models.CharField(max_length=60, primary_key=True, serialize=False)),
                ('slots', models.PositiveSmallIntegerField()),
                ('seen', models.DateTimeField(null=True)),
                ('machine', models.CharField(blank=True, default='', max_length=120)),
                ('threads', models.PositiveIntegerField(null=True)),
                ('speed', models.FloatField(null=True)),
                ('draining_since', models.DateTimeField(null=True)),
                ('size', models.CharField(blank=True, default='', max_length=40)),
                ('missed_since', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='SlowQuery',
            fields=[
                ('fragment', models.CharField(max_length=40, primary_key=True, serialize=False)),
                ('since', models.DateTimeField()),
                ('at_ms', models.BigIntegerField()),
                ('counts', models.JSONField(default=dict)),
                ('slow', models.CharField(blank=True, default='', max_length=100)),
                ('why_not', models.TextField(blank=True, default='')),
            ],
        ),
        migrations.CreateModel(
            name='CostFit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('machine', models.CharField(max_length=120)),
                ('version', models.PositiveIntegerField()),
                ('at', models.DateTimeField()),
                ('costs', models.JSONField()),
            ],
            options={
                'ordering': ['machine', '-version'],
                'constraints': [models.UniqueConstraint(fields=('machine', 'version'), name='one_fit_a_version')],
            },
        ),
        migrations.CreateModel(
            name='CostObservation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('machine', models.CharField(max_length=120)),
                ('slot', models.CharField(max_length=80)),
                ('group', models.CharField(max_length=64)),
                ('hour', models.DateTimeField()),
                ('seconds', models.FloatField(default=0.0)),
                ('cpu_us', models.BigIntegerField(default=0)),
                ('queries', models.JSONField(default=dict)),
            ],
            options={
                'indexes': [models.Index(fields=['machine', '-hour'], name='operations__machine_78d930_idx')],
                'constraints': [models.UniqueConstraint(fields=('slot', 'group', 'hour'), name='one_observation_an_hour')],
            },
        ),
        migrations.CreateModel(
            name='CutTask',
            fields=[
                ('task', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='operations.runningtaskrow')),
                ('at', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name='BundleSlot',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('fragment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='bundle_slots', to='operations.fragmentrow')),
                ('bundle', models.CharField(db_index=True, max_length=40)),
                ('slot', models.CharField(db_index=True, max_length=80)),
            ],
        ),
        migrations.CreateModel(
            name='HandoverPause',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('query', models.CharField(max_length=40)),
                ('at_ms', models.BigIntegerField(db_index=True)),
                ('gap_ms', models.PositiveIntegerField()),
                ('between_nodes', models.BooleanField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('query', 'at_ms'), name='one_pause_a_handover')],
            },
        ),
        migrations.CreateModel(
            name='SlotRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='slot_rows', to='operations.noderow')),
                ('index', models.PositiveSmallIntegerField()),
                ('name', models.CharField(max_length=80, unique=True)),
                ('queries', models.PositiveIntegerField(default=0)),
                ('task_nanocores', models.BigIntegerField(default=0)),
                ('bundles', models.PositiveIntegerField(default=0)),
                ('reserved_for', models.CharField(blank=True, default='', max_length=100)),
            ],
            options={
                'ordering': ['node_id', 'index'],
            },
        ),
        migrations.CreateModel(
            name='LatencyStatus',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('dataflow', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='latency_statuses', to='catalog.dataflowrecord')),
                ('number', models.PositiveSmallIntegerField()),
                ('limit', models.JSONField()),
                ('state', models.CharField(max_length=12)),
                ('expected_s', models.FloatField()),
                ('measured_s', models.FloatField(null=True)),
                ('least_s', models.FloatField(null=True)),
                ('other_s', models.FloatField(default=0.0)),
                ('path', models.JSONField(default=list)),
                ('full', models.JSONField(default=list)),
                ('since', models.DateTimeField()),
                ('late_since', models.DateTimeField(null=True)),
                ('hopeless', models.BooleanField(default=False)),
                ('at', models.DateTimeField()),
            ],
            options={
                'ordering': ['dataflow', 'number'],
                'constraints': [models.UniqueConstraint(fields=('dataflow', 'number'), name='one_status_a_limit')],
            },
        ),
        migrations.CreateModel(
            name='Loss',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('dataflow', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='losses', to='catalog.dataflowrecord')),
                ('reader', models.CharField(max_length=40)),
                ('channel', models.CharField(max_length=100)),
                ('blocks', models.BigIntegerField(default=0)),
                ('events', models.BigIntegerField(default=0)),
                ('changed', models.DateTimeField(auto_now=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('dataflow', 'reader', 'channel'), name='one_loss_a_reader')],
            },
        ),
        migrations.CreateModel(
            name='TeamUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('running_task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='team_uses', to='operations.runningtaskrow')),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='teams.team')),
                ('dataflows', models.PositiveIntegerField(default=0)),
                ('paused', models.PositiveIntegerField(default=0)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('running_task', 'team'), name='one_count_a_task_and_team')],
            },
        ),
        migrations.CreateModel(
            name='Use',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('dataflow', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='uses', to='catalog.dataflowrecord')),
                ('task_id', models.CharField(max_length=200)),
                ('position', models.PositiveIntegerField()),
                ('is_sink', models.BooleanField()),
                ('paused', models.BooleanField(default=False)),
                ('scheduled', models.BooleanField(default=False)),
                ('unchained', models.BooleanField(default=False)),
                ('running_task', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='uses', to='operations.runningtaskrow')),
            ],
            options={
                'ordering': ['position'],
                'indexes': [models.Index(fields=['running_task', 'dataflow'], name='operations__running_878ddd_idx'), models.Index(condition=models.Q(('unchained', True)), fields=['running_task'], name='unchained_uses')],
                'constraints': [models.UniqueConstraint(fields=('dataflow', 'task_id'), name='one_use_a_task')],
            },
        ),
        migrations.CreateModel(
            name='BatchFigures',
            fields=[
                ('fragment', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='figures', serialize=False, to='operations.fragmentrow')),
                ('cost', models.JSONField(default=dict)),
                ('alone_ms', models.JSONField(default=dict)),
                ('unlimited_ms', models.PositiveIntegerField(null=True)),
                ('refusal', models.CharField(blank=True, default='', max_length=200)),
            ],
        ),
        migrations.CreateModel(
            name='EstateState',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('generation', models.PositiveIntegerField(default=0)),
                ('changed', models.DateTimeField(auto_now=True)),
                ('revision', models.PositiveIntegerField(default=0)),
                ('pacing', models.CharField(blank=True, default='', max_length=20)),
                ('tenancy', models.CharField(blank=True, default='', max_length=20)),
            ],
        ),
        migrations.CreateModel(
            name='TaskMeter',
            fields=[
                ('fingerprint', models.CharField(max_length=100, primary_key=True, serialize=False)),
                ('at', models.DateTimeField(db_index=True)),
                ('meter', models.JSONField()),
            ],
        ),
        migrations.CreateModel(
            name='GuardState',
            fields=[
                ('task', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('state', models.JSONField(default=dict)),
                ('readings', models.JSONField(default=dict)),
                ('because', models.TextField(blank=True)),
                ('trouble', models.CharField(blank=True, max_length=20)),
                ('at', models.DateTimeField()),
                ('advice', models.TextField(blank=True)),
                ('verdicts', models.JSONField(default=dict)),
            ],
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
                'constraints': [models.UniqueConstraint(fields=('team', 'name'), name='one_event_stream_a_name')],
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
                'constraints': [models.UniqueConstraint(fields=('task', 'number'), name='one_policy_a_number')],
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
            options={
                'indexes': [models.Index(fields=['stream', 'id'], name='events_in_order'), models.Index(fields=['posted'], name='events_by_age')],
            },
        ),
        migrations.CreateModel(
            name='KeyHold',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('task', models.CharField(max_length=64)),
                ('key', models.CharField(max_length=200)),
                ('alternate', models.CharField(max_length=64)),
                ('until', models.DateTimeField()),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['task', 'key'],
                'constraints': [models.UniqueConstraint(fields=('task', 'key'), name='one_hold_a_key')],
            },
        ),
    ]
