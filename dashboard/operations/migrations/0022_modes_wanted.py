from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('operations', '0021_late_since'),
    ]

    operations = [
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
    ]
