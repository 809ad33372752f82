"""Trials that are set aside keep their verdict, and observations of bundles that share a slot are told apart.

Nobody knows any more whether a bundle that was noted before shared its slot, so it says nothing of CPU and memory.
"""

from django.db import migrations, models


def _give_verdicts_back(apps, schema_editor):
    """Set aside was said by an error and the verdict taken away: none of these trials was stable."""
    apps.get_model("profiles", "TrialRecord").objects.filter(
        stable=None, error="Not stable, and set aside when the sweep was tried again.",
    ).update(stable=False, set_aside=True, error="")


class Migration(migrations.Migration):

    dependencies = [
        ('profiles', '0005_code_and_what_was_fed'),
    ]

    operations = [
        migrations.AddField(
            model_name='trialrecord',
            name='set_aside',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='observationrow',
            name='shared',
            field=models.BooleanField(default=True),
            preserve_default=False,
        ),
        migrations.RunPython(_give_verdicts_back, migrations.RunPython.noop),
    ]
