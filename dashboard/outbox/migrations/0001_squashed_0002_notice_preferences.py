import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('outbox', '0001_initial'), ('outbox', '0002_notice_preferences')]

    initial = True

    dependencies = [
        ('teams', '0001_squashed_0003_policies'),
    ]

    operations = [
        migrations.CreateModel(
            name='Endpoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80)),
                ('url', models.URLField(max_length=500)),
                ('format', models.CharField(choices=[('weir', "Weir's JSON"), ('slack', "Slack's")], default='weir', max_length=10)),
                ('least', models.CharField(max_length=10)),
                ('sealed', models.TextField()),
                ('created', models.DateTimeField(auto_now_add=True)),
                ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team')),
                ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['name', 'id'],
            },
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('key', models.CharField(max_length=300, unique=True)),
                ('channel', models.CharField(max_length=10)),
                ('to', models.CharField(blank=True, max_length=320)),
                ('subject', models.CharField(blank=True, max_length=300)),
                ('payload', models.JSONField()),
                ('state', models.CharField(default='waiting', max_length=8)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('next_s', models.BigIntegerField(default=0)),
                ('error', models.CharField(blank=True, max_length=500)),
                ('created', models.DateTimeField(auto_now_add=True)),
                ('sent_at', models.DateTimeField(null=True)),
                ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('endpoint', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='outbox.endpoint')),
            ],
            options={
                'ordering': ['-created', 'id'],
                'indexes': [models.Index(fields=['state', 'next_s'], name='deliveries_due')],
            },
        ),
        migrations.CreateModel(
            name='NoticePreference',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('subject', models.CharField(max_length=10)),
                ('email', models.BooleanField()),
                ('webhook', models.BooleanField()),
                ('daily', models.BooleanField(default=False)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'subject'), name='one_preference_a_subject')],
            },
        ),
    ]
