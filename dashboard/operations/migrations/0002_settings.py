"""What queries are set to is kept with their fragments; what their batches cost, beside them."""

import django.db.models.deletion
from django.db import migrations, models


def move_settings(apps, schema_editor):
    fragments, paces, figures = (apps.get_model("operations", name) for name in (
        "FragmentRow", "FragmentPace", "BatchFigures"))
    known = set(fragments.objects.values_list("pk", flat=True))
    rows = [row for row in paces.objects.all() if row.pk in known]
    for row in rows:
        fragments.objects.filter(pk=row.pk).update(trigger_ms=row.trigger_ms, real_time=row.real_time)
    figures.objects.bulk_create(figures(
        fragment_id=row.pk, cost=row.cost, alone_ms=row.alone_ms, unlimited_ms=row.unlimited_ms, refusal=row.refusal)
        for row in rows)


class Migration(migrations.Migration):
    dependencies = [("operations", "0001_squashed_0026_unlimited")]

    operations = [
        migrations.AddField("estatestate", "revision", models.PositiveIntegerField(default=0)),
        migrations.AddField("fragmentrow", "trigger_ms", models.PositiveIntegerField(null=True)),
        migrations.AddField("fragmentrow", "real_time", models.BooleanField(default=False)),
        migrations.CreateModel("BatchFigures", [
            ("fragment", models.OneToOneField(
                db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True,
                related_name="figures", serialize=False, to="operations.fragmentrow")),
            ("cost", models.JSONField(default=dict)),
            ("alone_ms", models.JSONField(default=dict)),
            ("unlimited_ms", models.PositiveIntegerField(null=True)),
            ("refusal", models.CharField(blank=True, default="", max_length=200)),
        ]),
        migrations.RunPython(move_settings, migrations.RunPython.noop, elidable=True),
        migrations.DeleteModel("FragmentPace"),
    ]
