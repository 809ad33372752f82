import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('approvals', '0001_initial'), ('approvals', '0002_initial'), ('approvals', '0003_proposals_without_an_author'), ('approvals', '0004_newest_of_dataflow'), ('approvals', '0005_chosen_by'), ('approvals', '0006_rounds'), ('approvals', '0007_rules_and_asks'), ('approvals', '0008_asks_of_before'), ('approvals', '0009_comments'), ('approvals', '0001_squashed_0009_comments'), ('approvals', '0002_rules_that_wait')]

    initial = True

    dependencies = [
        ('catalog', '0001_squashed_0002_goals'),
        ('controllers', '0001_squashed_0004_machines_recommended'),
        ('plans', '0001_squashed_0002_kinds_are_named_elsewhere'),
        ('teams', '0001_squashed_0003_policies'),
    ]

    operations = [
        migrations.CreateModel(
            name='Proposal',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('plan', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='proposal', to='plans.planrecord')),
                ('dataflow', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='proposals', to='catalog.dataflowrecord')),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='proposals', to=settings.AUTH_USER_MODEL)),
                ('chosen_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('round', models.OneToOneField(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='proposal', to='controllers.roundrow')),
                ('status', models.CharField(choices=[('computing', 'computing'), ('unplannable', 'unplannable'), ('pending', 'pending'), ('stale', 'stale'), ('executing', 'executing'), ('failed', 'failed'), ('rolling_back', 'rolling_back'), ('done', 'done'), ('rejected', 'rejected'), ('cancelled', 'cancelled'), ('rolled_back', 'rolled_back')], default='computing', max_length=14)),
                ('rollback_plan', models.OneToOneField(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='plans.planrecord')),
                ('created', models.DateTimeField(auto_now_add=True)),
                ('changed', models.DateTimeField(auto_now=True)),
                ('approved_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('progress', models.JSONField(default=dict)),
                ('held', models.JSONField(null=True)),
                ('teams', models.ManyToManyField(related_name='+', to='teams.team')),
            ],
            options={
                'ordering': ['-created', 'id'],
                'indexes': [models.Index(fields=['status'], name='approvals_p_status_f80641_idx'), models.Index(fields=['dataflow', '-finished_at'], name='newest_of_dataflow')],
            },
        ),
        migrations.CreateModel(
            name='Comment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('proposal', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='comments', to='approvals.proposal')),
                ('task', models.CharField(blank=True, max_length=200)),
                ('parent', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='replies', to='approvals.comment')),
                ('author', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('text', models.TextField()),
                ('created', models.DateTimeField(default=django.utils.timezone.now)),
                ('edited', models.DateTimeField(null=True)),
                ('resolved', models.DateTimeField(null=True)),
                ('resolved_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['created', 'id'],
            },
        ),
        migrations.CreateModel(
            name='Review',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('proposal', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='reviews', to='approvals.proposal')),
                ('plan', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='reviews', to='plans.planrecord')),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='teams.team')),
                ('reviewer', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('verdict', models.CharField(choices=[('approve', 'approve'), ('reject', 'reject')], max_length=8)),
                ('role', models.CharField(choices=[('approver', 'approver'), ('admin', 'admin')], default='approver', max_length=8)),
                ('comment', models.TextField(blank=True)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'ordering': ['at', 'id'],
                'constraints': [models.UniqueConstraint(fields=('plan', 'team', 'reviewer'), name='one_review_a_person')],
            },
        ),
        migrations.CreateModel(
            name='TeamRules',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='approval_rules', to='teams.team')),
                ('number', models.PositiveIntegerField()),
                ('document', models.JSONField()),
                ('author', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('note', models.TextField(blank=True)),
                ('created', models.DateTimeField(auto_now_add=True)),
                ('second', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('state', models.CharField(choices=[('holds', 'holds'), ('waits', 'waits'), ('declined', 'declined')], default='holds', max_length=8)),
            ],
            options={
                'ordering': ['-number'],
                'constraints': [models.UniqueConstraint(fields=('team', 'number'), name='one_version_of_rules_a_number')],
            },
        ),
        migrations.CreateModel(
            name='Ask',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('plan', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='asks', to='plans.planrecord')),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='teams.team')),
                ('rules', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='approvals.teamrules')),
                ('approvals', models.PositiveSmallIntegerField(default=1)),
                ('role', models.CharField(choices=[('approver', 'approver'), ('admin', 'admin')], default='approver', max_length=8)),
                ('expires_after_h', models.FloatField(null=True)),
                ('why', models.CharField(blank=True, max_length=120)),
            ],
            options={
                'ordering': ['id'],
                'constraints': [models.UniqueConstraint(fields=('plan', 'team'), name='one_ask_a_plan_and_team')],
            },
        ),
        migrations.CreateModel(
            name='Mention',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('comment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='mentions', to='approvals.comment')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('seen', models.BooleanField(default=False)),
            ],
            options={
                'indexes': [models.Index(fields=['user', 'seen'], name='unseen_mentions')],
                'constraints': [models.UniqueConstraint(fields=('comment', 'user'), name='one_mention_a_person')],
            },
        ),
    ]
