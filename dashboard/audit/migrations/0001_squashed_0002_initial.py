import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('audit', '0001_initial'), ('audit', '0002_initial')]

    initial = True

    dependencies = [
        ('teams', '0001_squashed_0003_policies'),
    ]

    operations = [
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(auto_now_add=True, db_index=True)),
                ('actor', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('verb', models.CharField(max_length=60)),
                ('subject_type', models.CharField(max_length=40)),
                ('subject_id', models.CharField(max_length=64)),
                ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='teams.team')),
                ('details', models.JSONField(default=dict)),
            ],
            options={
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['subject_type', 'subject_id'], name='audit_audit_subject_428d52_idx')],
            },
        ),
    ]
