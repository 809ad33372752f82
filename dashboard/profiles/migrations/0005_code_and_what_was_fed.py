from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('profiles', '0004_newest_trials'),
    ]

    operations = [
        migrations.AddField(
            model_name='profilerecord',
            name='code',
            field=models.CharField(blank=True, default='', max_length=64),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='profilerecord',
            name='at_least',
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name='sweeprecord',
            name='code',
            field=models.CharField(blank=True, default='', max_length=64),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='sweeprecord',
            name='slot_threads',
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='trialrecord',
            name='starved',
            field=models.BooleanField(default=False),
        ),
    ]
