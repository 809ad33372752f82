from django.db import migrations, models


def forget_pauses(apps, schema_editor):
    """Nobody knows of those that were measured before whether they were between nodes."""
    apps.get_model('operations', 'HandoverPause').objects.all().delete()


class Migration(migrations.Migration):

    dependencies = [
        ('operations', '0024_hopeless_limits'),
    ]

    operations = [
        migrations.RunPython(forget_pauses, migrations.RunPython.noop),
        migrations.AddField(
            model_name='handoverpause',
            name='between_nodes',
            field=models.BooleanField(default=False),
            preserve_default=False,
        ),
    ]
