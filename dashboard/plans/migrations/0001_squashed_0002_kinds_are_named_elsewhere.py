import django.db.models.deletion
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('plans', '0001_initial'), ('plans', '0002_kinds_and_how_to_join'), ('plans', '0003_schedules'), ('plans', '0004_has_promise'), ('plans', '0005_isolations'), ('plans', '0006_reads'), ('plans', '0007_kinds_of_version_changes'), ('plans', '0008_moves'), ('plans', '0001_squashed_0008_moves'), ('plans', '0002_kinds_are_named_elsewhere')]

    initial = True

    dependencies = [
        ('catalog', '0001_squashed_0002_goals'),
    ]

    operations = [
        migrations.CreateModel(
            name='PlanRecord',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=10)),
                ('dataflow', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='plans', to='catalog.dataflowrecord')),
                ('version', models.PositiveIntegerField()),
                ('options', models.JSONField(default=dict)),
                ('status', models.CharField(choices=[('computing', 'computing'), ('ready', 'ready'), ('stale', 'stale'), ('failed', 'failed')], default='computing', max_length=10)),
                ('generation', models.PositiveIntegerField(null=True)),
                ('digest', models.CharField(blank=True, max_length=64)),
                ('has_promise', models.BooleanField(default=False)),
                ('document', models.TextField(blank=True)),
                ('reads', models.TextField(blank=True, default='')),
                ('error', models.JSONField(null=True)),
                ('created', models.DateTimeField(auto_now_add=True)),
                ('enqueued', models.DateTimeField(auto_now_add=True)),
                ('finished', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ['-created'],
                'indexes': [models.Index(fields=['status'], name='plans_planr_status_82cf8b_idx')],
            },
        ),
    ]
