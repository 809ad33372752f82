import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('alerts', '0001_initial'), ('alerts', '0002_silence_in_seconds'), ('alerts', '0003_alert_concerned'), ('alerts', '0004_choices_of_all_notices')]

    initial = True

    dependencies = [
        ('catalog', '0001_squashed_0002_goals'),
        ('teams', '0001_squashed_0003_policies'),
    ]

    operations = [
        migrations.CreateModel(
            name='EvaluatorClock',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('evaluated_s', models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name='MuteRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('rule_id', models.CharField(blank=True, max_length=100)),
                ('element_kind', models.CharField(blank=True, max_length=10)),
                ('element', models.CharField(blank=True, max_length=210)),
                ('until', models.DateTimeField()),
                ('text', models.CharField(max_length=300)),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team')),
            ],
            options={
                'ordering': ['until'],
            },
        ),
        migrations.CreateModel(
            name='NoticeGroup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cause', models.CharField(max_length=240)),
                ('opened_s', models.BigIntegerField()),
                ('told_s', models.BigIntegerField(null=True)),
                ('notices', models.PositiveIntegerField(default=0)),
                ('closed', models.BooleanField(default=False)),
                ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team')),
            ],
            options={
                'indexes': [models.Index(fields=['closed', 'cause'], name='open_groups')],
            },
        ),
        migrations.CreateModel(
            name='Alert',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=400, unique=True)),
                ('rule_id', models.CharField(max_length=100)),
                ('kind', models.CharField(max_length=30)),
                ('element_kind', models.CharField(max_length=10)),
                ('element', models.CharField(max_length=210)),
                ('cause', models.CharField(max_length=240)),
                ('text', models.CharField(max_length=500)),
                ('remedy', models.CharField(blank=True, max_length=500)),
                ('severity', models.CharField(choices=[('critical', 'critical'), ('warning', 'warning'), ('info', 'info')], max_length=10)),
                ('phase', models.CharField(max_length=8)),
                ('since_s', models.BigIntegerField()),
                ('calm_s', models.BigIntegerField(null=True)),
                ('fired_s', models.BigIntegerField(null=True)),
                ('resolved_s', models.BigIntegerField(null=True)),
                ('why', models.CharField(blank=True, max_length=8)),
                ('told', models.BooleanField(default=False)),
                ('acknowledged_at', models.DateTimeField(null=True)),
                ('acknowledged_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('dataflow', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='catalog.dataflowrecord')),
                ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team')),
                ('group', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='alerts', to='alerts.noticegroup')),
                ('concerned', models.JSONField(default=list)),
            ],
            options={
                'ordering': ['-fired_s', '-id'],
                'indexes': [models.Index(fields=['phase'], name='alerts_by_phase')],
            },
        ),
        migrations.CreateModel(
            name='RuleRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('scope', models.CharField(max_length=60)),
                ('kind', models.CharField(max_length=30)),
                ('enabled', models.BooleanField(default=True)),
                ('threshold', models.FloatField()),
                ('clear_threshold', models.FloatField()),
                ('for_s', models.PositiveIntegerField()),
                ('clear_for_s', models.PositiveIntegerField()),
                ('severity', models.CharField(choices=[('critical', 'critical'), ('warning', 'warning'), ('info', 'info')], max_length=10)),
                ('dataflow', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='catalog.dataflowrecord')),
                ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('scope', 'kind'), name='one_rule_a_scope_and_kind')],
            },
        ),
    ]
