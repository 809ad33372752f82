"""A column by which a running task's siblings are found: those of one type, with the same parents and scope."""

from django.db import migrations, models

from scheduler.reuse.siblings import kin

AT_A_TIME = 500


def fill(apps, schema_editor):
    rows = apps.get_model("operations", "RunningTaskRow").objects.all()
    changed = list(rows)
    for row in changed:
        row.kin = kin(row.type, parents=row.parents, scope=row.scope)
    rows.bulk_update(changed, ["kin"], batch_size=AT_A_TIME)


class Migration(migrations.Migration):

    dependencies = [("operations", "0003_fill_look_ups")]

    operations = [
        migrations.AddField(
            model_name="runningtaskrow", name="kin",
            field=models.CharField(db_index=True, default="", max_length=32)),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
