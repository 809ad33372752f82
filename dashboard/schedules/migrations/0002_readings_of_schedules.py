"""A model is called for what its rows are: readings of schedules. The rows stay."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('schedules', '0001_squashed_0003_readings_of_proposals'),
    ]

    operations = [
        migrations.RenameModel(old_name='Reading', new_name='ScheduleReading'),
    ]
