from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('operations', '0023_handover_pauses'),
    ]

    operations = [
        migrations.AddField(
            model_name='latencystatus',
            name='hopeless',
            field=models.BooleanField(default=False),
        ),
    ]
