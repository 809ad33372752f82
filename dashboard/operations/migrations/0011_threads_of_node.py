from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('operations', '0010_scheduled'),
    ]

    operations = [
        migrations.AddField(
            model_name='noderow',
            name='threads',
            field=models.PositiveIntegerField(null=True),
        ),
    ]
