"""Whether teams share slots is a setting of the estate, and a fragment says whose dataflow brought it."""

from django.db import migrations, models


def say_whose(apps, schema_editor) -> None:
    """What runs already is of the team of the first dataflow that uses it, of those that do by now."""
    fragments, tasks, uses = (apps.get_model("operations", name) for name in ("FragmentRow", "RunningTaskRow", "Use"))
    heads = {row.pk: row.tasks[0] for row in fragments.objects.all() if row.tasks}
    first: dict[str, str] = {}
    using = uses.objects.filter(running_task__in=tasks.objects.filter(position=0)).order_by("pk")
    for task, team in using.values_list("running_task", "dataflow__team__slug"):
        first.setdefault(task, team)
    fragments.objects.bulk_update(
        [fragments(pk=name, team=first.get(head, "")) for name, head in heads.items()], ["team"], batch_size=500)


class Migration(migrations.Migration):
    dependencies = [("operations", "0003_pacing")]

    operations = [
        migrations.AddField("estatestate", "tenancy", models.CharField(blank=True, default="", max_length=20)),
        migrations.AddField(
            "fragmentrow", "team", models.CharField(blank=True, db_index=True, default="", max_length=40)),
        migrations.RunPython(say_whose, migrations.RunPython.noop),
    ]
