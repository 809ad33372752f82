from django.db import migrations, models


def keep_old_alarms_to_administrators(apps, schema_editor):
    """Which team an alarm of before was of is not known, and it may name that team's private dataflows."""
    apps.get_model("history", "AnnotationRow").objects.filter(
        what__in=("alarm", "over"), text__contains=": ").exclude(kind="dataflow").update(team="-")


class Migration(migrations.Migration):

    dependencies = [("history", "0001_series_blocks_and_annotations")]

    operations = [
        migrations.AddField(
            model_name="annotationrow", name="team", field=models.CharField(blank=True, max_length=40, default=""),
            preserve_default=False),
        migrations.RunPython(keep_old_alarms_to_administrators, migrations.RunPython.noop),
    ]
