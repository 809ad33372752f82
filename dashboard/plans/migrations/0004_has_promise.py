"""Which plans have a schedule: until now asked of their documents' text, every ten seconds."""

from django.db import migrations, models


def fill(apps, schema_editor):
    plans = apps.get_model("plans", "PlanRecord").objects.using(schema_editor.connection.alias)
    plans.filter(document__contains='"promise":').update(has_promise=True)


class Migration(migrations.Migration):

    dependencies = [
        ('plans', '0003_schedules'),
    ]

    operations = [
        migrations.AddField(
            model_name='planrecord',
            name='has_promise',
            field=models.BooleanField(default=False),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
