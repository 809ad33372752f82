from django.db import migrations

# Rules of silent sources had no threshold to choose: 1 meant that it was so. Now it is seconds beyond what is usual.
THRESHOLD_S, CLEAR_S = 600, 60


def in_seconds(apps, _schema):
    apps.get_model("alerts", "RuleRow").objects.filter(kind="silent_source", threshold=1).update(
        threshold=THRESHOLD_S, clear_threshold=CLEAR_S)


class Migration(migrations.Migration):

    dependencies = [("alerts", "0001_initial")]

    operations = [migrations.RunPython(in_seconds, migrations.RunPython.noop, elidable=True)]
