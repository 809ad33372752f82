"""What controllers recommend is decided as a proposal or a sweep: rounds that asked in another way have ended."""

from django.db import migrations
from django.utils import timezone


def end_rounds(apps, schema_editor):
    rounds, now = apps.get_model("controllers", "RoundRow").objects.filter(ended=None), timezone.now()
    modes = rounds.filter(controller="open_batches")
    why = "A new version of Weir was started meanwhile."
    modes.filter(carried=None).update(phase="declined", ended=now, why=why)
    modes.exclude(carried=None).update(phase="unchecked", ended=now, why=why)
    rounds.exclude(asked=None).filter(sweep=None, proposal=None).update(phase="declined", ended=now, why=why)


class Migration(migrations.Migration):
    dependencies = [
        ("controllers", "0001_squashed_0003_changes_that_are_no_plans"),
        ("approvals", "0001_squashed_0009_comments")]

    operations = [
        migrations.RunPython(end_rounds, migrations.RunPython.noop, elidable=True),
        *(migrations.RemoveField("roundrow", name) for name in (
            "asked", "asked_of", "carried", "answer", "answered_by")),
    ]
