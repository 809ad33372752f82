"""Fill what is kept from now on: where each task works, how many of each team use it, what each slot has to do."""

from collections import Counter

from django.db import migrations

NANO = 1_000_000_000
AT_A_TIME = 500


def fill(apps, schema_editor):
    models = {name: apps.get_model("operations", name) for name in (
        "FragmentRow", "NodeRow", "RunningTaskRow", "SlotRow", "TeamUse", "Use")}
    tasks = {row.pk: row for row in models["RunningTaskRow"].objects.all()}
    queries, nanocores = Counter(), Counter()
    for fragment in models["FragmentRow"].objects.all():
        queries[fragment.slot] += 1
        for position, task_id in enumerate(fragment.tasks[:fragment.active]):
            tasks[task_id].fragment, tasks[task_id].position = fragment.pk, position
            nanocores[fragment.slot] += round(tasks[task_id].cores * NANO)
    models["RunningTaskRow"].objects.bulk_update(tasks.values(), ["fragment", "position"], batch_size=AT_A_TIME)
    names = {(node.pk, index): f"{node.pk}/{index}" for node in models["NodeRow"].objects.all()
             for index in range(node.slots)}
    models["SlotRow"].objects.bulk_create(
        models["SlotRow"](node_id=node, index=index, name=name, queries=queries[name], task_nanocores=nanocores[name])
        for (node, index), name in names.items())
    uses = set(models["Use"].objects.values_list("running_task_id", "dataflow__team_id", "dataflow_id"))
    counts = Counter((task_id, team_id) for task_id, team_id, _ in uses)
    models["TeamUse"].objects.bulk_create(
        (models["TeamUse"](running_task_id=task_id, team_id=team_id, dataflows=dataflows)
         for (task_id, team_id), dataflows in counts.items()), batch_size=AT_A_TIME)


class Migration(migrations.Migration):

    dependencies = [("operations", "0002_look_ups"), ("catalog", "0002_initial")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
