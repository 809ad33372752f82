from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('controllers', '0002_defragmentation_of_teams'),
        ('teams', '0004_when_behind'),
    ]

    operations = [migrations.RemoveField(model_name='team', name='defragmentation')]
