"""Keep which dataflows have a schedule; of those already there, the ones that use something divided."""

from django.db import migrations, models


def fill(apps, schema_editor):
    use, fragment = (apps.get_model("operations", name) for name in ("Use", "FragmentRow"))
    divided = [row.pk for row in fragment.objects.all() if row.bundles]
    dataflows = set(use.objects.filter(running_task__fragment__in=divided).values_list("dataflow_id", flat=True))
    use.objects.filter(dataflow_id__in=dataflows).update(scheduled=True)


class Migration(migrations.Migration):

    dependencies = [("operations", "0009_bundle_of_slot")]

    operations = [
        migrations.AddField("use", "scheduled", models.BooleanField(default=False)),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
