import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('bills', '0001_needs_readings_usage_and_prices'), ('bills', '0002_costs'), ('bills', '0003_disk'), ('bills', '0004_for_limits'), ('bills', '0001_squashed_0004_for_limits'), ('bills', '0002_alternates')]

    initial = True

    dependencies = [
        ('catalog', '0001_squashed_0002_goals'),
    ]

    operations = [
        migrations.CreateModel(
            name='PriceList',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('since', models.DateTimeField()),
                ('prices', models.JSONField()),
            ],
            options={
                'ordering': ['-since'],
            },
        ),
        migrations.CreateModel(
            name='NeedRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('dataflow', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='needs', to='catalog.dataflowrecord')),
                ('task_id', models.CharField(max_length=200)),
                ('type', models.CharField(max_length=100)),
                ('fingerprint', models.CharField(max_length=100)),
                ('since', models.DateTimeField()),
                ('until', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(fields=['fingerprint', 'until'], name='bills_needr_fingerp_dd946c_idx'), models.Index(fields=['dataflow', 'until'], name='bills_needr_dataflo_1b4bdc_idx')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('until', None)), fields=('dataflow', 'task_id'), name='one_open_need_a_task')],
            },
        ),
        migrations.CreateModel(
            name='UsageHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('dataflow', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='usage', to='catalog.dataflowrecord')),
                ('fingerprint', models.CharField(blank=True, max_length=100)),
                ('cpu_us', models.BigIntegerField(default=0)),
                ('memory_mb_s', models.BigIntegerField(default=0)),
                ('traffic_bytes', models.BigIntegerField(default=0)),
                ('disk_kb_s', models.BigIntegerField(default=0)),
                ('cost_nanos', models.BigIntegerField(default=0)),
                ('alone_nanos', models.BigIntegerField(default=0)),
                ('needed_ms', models.BigIntegerField(default=0)),
                ('user_ms', models.BigIntegerField(default=0)),
                ('batches_cpu_us', models.BigIntegerField(default=0)),
                ('batches_nanos', models.BigIntegerField(default=0)),
                ('limit_cpu_us', models.BigIntegerField(default=0)),
                ('limit_nanos', models.BigIntegerField(default=0)),
                ('limit_known_ms', models.BigIntegerField(default=0)),
            ],
            options={
                'indexes': [models.Index(fields=['dataflow', 'hour'], name='bills_usage_dataflo_761a5c_idx'), models.Index(fields=['fingerprint', 'hour'], name='bills_usage_fingerp_06a670_idx'), models.Index(fields=['hour'], name='bills_usage_hour_3aa4d4_idx')],
                'constraints': [models.UniqueConstraint(fields=('hour', 'dataflow', 'fingerprint'), name='one_row_an_hour')],
            },
        ),
        migrations.CreateModel(
            name='SlotReading',
            fields=[
                ('slot', models.CharField(max_length=80, primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
                ('counters', models.JSONField()),
                ('tasks', models.JSONField(default=dict)),
                ('same_since', models.DateTimeField(null=True)),
                ('alternates', models.JSONField(default=dict)),
            ],
        ),
    ]
