from django.db import migrations

USUAL = {"changes_per_hour": 4, "changes_per_day": 24, "cool_down_s": 1800.0}


def take_over(apps, schema_editor):
    """What a team chose for defragmentation; what it left as it was needs no row."""
    settings = apps.get_model("controllers", "ControllerSettings")
    for team in apps.get_model("teams", "Team").objects.exclude(defragmentation="recommends"):
        settings.objects.create(controller="defragmentation", team=team, mode=team.defragmentation, **USUAL)


class Migration(migrations.Migration):

    dependencies = [
        ('controllers', '0001_settings_rounds_and_reasons'),
        ('teams', '0004_when_behind'),
    ]

    operations = [migrations.RunPython(take_over, migrations.RunPython.noop)]
