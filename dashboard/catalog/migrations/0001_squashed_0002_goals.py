import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('catalog', '0001_initial'), ('catalog', '0002_initial'), ('catalog', '0003_paused_dataflows'), ('catalog', '0004_when_behind'), ('catalog', '0005_latency'), ('catalog', '0001_squashed_0005_latency'), ('catalog', '0002_goals')]

    initial = True

    dependencies = [
        ('teams', '0001_squashed_0003_policies'),
    ]

    operations = [
        migrations.CreateModel(
            name='DataflowRecord',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='dataflows', to='teams.team')),
                ('author', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='dataflows', to=settings.AUTH_USER_MODEL)),
                ('name', models.CharField(max_length=120)),
                ('description', models.TextField(blank=True)),
                ('visibility', models.CharField(choices=[('shared', 'shared'), ('private', 'private')], max_length=10)),
                ('status', models.CharField(choices=[('submitted', 'submitted'), ('planned', 'planned'), ('running', 'running'), ('pausing', 'pausing'), ('paused', 'paused'), ('removing', 'removing'), ('removed', 'removed'), ('rejected', 'rejected'), ('withdrawn', 'withdrawn'), ('failed', 'failed')], default='submitted', max_length=12)),
                ('when_behind', models.CharField(blank=True, choices=[('spill', 'spill'), ('pause', 'pause'), ('lose_oldest', 'lose_oldest')], default='', max_length=12)),
                ('latency', models.JSONField(default=None, null=True)),
                ('latency_chosen', models.JSONField(default=None, null=True)),
                ('version', models.PositiveIntegerField(default=1)),
                ('tasks', models.PositiveIntegerField()),
                ('created', models.DateTimeField(auto_now_add=True)),
                ('changed', models.DateTimeField(auto_now=True)),
                ('goals', models.JSONField(default=None, null=True)),
                ('goals_chosen', models.JSONField(default=None, null=True)),
            ],
            options={
                'ordering': ['-created', 'id'],
                'indexes': [models.Index(fields=['status'], name='catalog_dat_status_a15f4b_idx')],
                'constraints': [models.UniqueConstraint(fields=('team', 'name'), name='one_dataflow_a_name_and_team')],
            },
        ),
        migrations.CreateModel(
            name='DataflowVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('dataflow', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='catalog.dataflowrecord')),
                ('number', models.PositiveIntegerField()),
                ('text', models.TextField()),
                ('format', models.CharField(max_length=10)),
                ('document', models.JSONField()),
                ('author', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('created', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'ordering': ['-number'],
                'constraints': [models.UniqueConstraint(fields=('dataflow', 'number'), name='one_version_a_number')],
            },
        ),
    ]
