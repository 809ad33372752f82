from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('operations', '0025_pauses_between_nodes'),
    ]

    operations = [
        migrations.AddField(
            model_name='fragmentpace',
            name='unlimited_ms',
            field=models.PositiveIntegerField(null=True),
        ),
    ]
